import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, readdir, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { REPOSITORY } from "./source-files.ts";

const VITE = path.join(REPOSITORY, "node_modules", "vite", "bin", "vite.js");

/** The folder of a dashboard built from the sources as they are now; built once for each state of them. */
export async function buildDashboard(): Promise<string> {
  const web = path.join(REPOSITORY, "web");
  const hash = createHash("sha256").update(await readFile(path.join(REPOSITORY, "package-lock.json")));
  const sources = ["web", "src/client", "src/model", "src/shapes"].map((name) => path.join(REPOSITORY, name));
  for (const file of (await Promise.all(sources.map(filesBelow))).flat()) {
    hash.update(`${path.relative(REPOSITORY, file)}\0`).update(await readFile(file));
  }
  const outDir = path.join(tmpdir(), `millrace-web-${hash.digest("hex").slice(0, 16)}`);
  if (existsSync(outDir)) return outDir;
  const aside = await mkdtemp(`${outDir}-`);
  // A process of its own: in this one, React would be built for tests.
  await promisify(execFile)(
    process.execPath,
    [VITE, "build", web, "--outDir", aside, "--emptyOutDir", "--logLevel", "error"],
    { env: { PATH: process.env["PATH"], NODE_ENV: "production" } },
  );
  // Another run may have been faster.
  await rename(aside, outDir).catch(() => rm(aside, { recursive: true, force: true }));
  return outDir;
}

async function filesBelow(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map(({ parentPath, name }) => path.join(parentPath, name)).toSorted();
}
