import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { cp, mkdir, readFile, readdir, rename, rm } from "node:fs/promises";
import path from "node:path";

/** What never belongs to a bundle: hidden files, and what Python or an editor leaves behind. */
function isLeftOut(name: string): boolean {
  return name.startsWith(".") || name === "__pycache__";
}

/** A hash over the names and contents of a folder's files: equal for equal bundles. */
export async function hashFolder(folder: string): Promise<string> {
  const hash = createHash("sha256");
  for (const file of (await listFiles(folder, "")).toSorted()) {
    const content = await readFile(path.join(folder, file));
    hash.update(`${file}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex");
}

/** Copies a folder whole: it appears under its final name at once, or not at all. What is there already stays. */
export async function copyFolder(from: string, to: string): Promise<void> {
  if (existsSync(to)) return;
  const aside = `${to}.new`;
  await mkdir(path.dirname(to), { recursive: true, mode: 0o700 });
  await rm(aside, { recursive: true, force: true });
  await cp(from, aside, {
    recursive: true,
    filter: (source) => source === from || !isLeftOut(path.basename(source)),
  });
  await rename(aside, to);
}

async function listFiles(folder: string, below: string): Promise<string[]> {
  const files: string[] = [];
  for (const entry of await readdir(path.join(folder, below), { withFileTypes: true })) {
    if (isLeftOut(entry.name)) continue;
    const name = path.join(below, entry.name);
    if (entry.isDirectory()) files.push(...(await listFiles(folder, name)));
    else if (entry.isFile()) files.push(name);
  }
  return files;
}
