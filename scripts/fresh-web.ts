import { readdirSync, statSync } from "node:fs";
import path from "node:path";

// Before `npm start` in a clone: the dashboard is built if its sources are younger than what was built of them.
const BUILT = "dist/web/index.html";

function changedAt(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function newest(dir: string): number {
  const entries = readdirSync(dir, { recursive: true, withFileTypes: true });
  return Math.max(...entries.map(({ parentPath, name }) => changedAt(path.join(parentPath, name))));
}

if (Math.max(newest("web"), newest("client"), changedAt("package-lock.json")) > changedAt(BUILT)) {
  process.stderr.write("Building the dashboard, this once…\n");
  const { build } = await import("vite");
  await build({ configFile: "web/vite.config.ts", logLevel: "error" });
}
