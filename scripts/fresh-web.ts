import { readdirSync, statSync } from "node:fs";
import path from "node:path";

// Before `npm start` in a clone: what browsers get is built if its sources are younger than what was built of them.
const DASHBOARD = {
  built: "dist/web/index.html",
  sources: ["web", "src/client", "src/model", "src/shapes", "package-lock.json"],
};
const GUIDE = {
  built: "dist/guide/index.html",
  sources: [
    "docs",
    "examples",
    "scripts/guide",
    "web/guide",
    "web/colours.css",
    "web/parts/copy-text.ts",
    ...readdirSync(".").filter((name) => name.endsWith(".md")),
  ],
};

function changedAt(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function newest(source: string): number {
  if (!statSync(source).isDirectory()) return changedAt(source);
  const entries = readdirSync(source, { recursive: true, withFileTypes: true });
  return Math.max(...entries.map(({ parentPath, name }) => changedAt(path.join(parentPath, name))));
}

function isStale({ built, sources }: typeof GUIDE): boolean {
  return Math.max(...sources.map(newest)) > changedAt(built);
}

if (isStale(DASHBOARD)) {
  process.stderr.write("Building the dashboard, this once…\n");
  const { build } = await import("vite");
  await build({ configFile: "web/vite.config.ts", logLevel: "error" });
}
if (isStale(GUIDE)) {
  const { buildGuide } = await import("./guide/build.ts");
  // A document that is being edited may have a link that leads nowhere: the service starts all the same.
  await buildGuide("dist/guide").catch((error: Error) => process.stderr.write(`${error.message}\n`));
}
