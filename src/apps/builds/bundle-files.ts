import { createHash } from "node:crypto";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { open, readFile, readdir, realpath, stat } from "../../kit/files.ts";
import { BuildError } from "./build-error.ts";

/** A list of packages or commands is shorter. */
const MAX_TEXT_BYTES = 1024 * 1024;

/** The real place of a file or folder of the bundle; null if there is none, or a link leads out of the bundle. */
export async function insideBundle(bundleDir: string, name: string): Promise<string | null> {
  try {
    const root = await realpath(bundleDir);
    const target = await realpath(path.resolve(root, name));
    return target === root || target.startsWith(root + path.sep) ? target : null;
  } catch {
    return null;
  }
}

/** The text of a file of the bundle; null if there is none. */
export async function readBundleText(bundleDir: string, name: string): Promise<string | null> {
  const target = await insideBundle(bundleDir, name);
  if (target === null) return null;
  const stats = await stat(target);
  if (!stats.isFile()) return null;
  if (stats.size > MAX_TEXT_BYTES) throw new BuildError(`${name} is larger than 1 MiB`);
  return (await readFile(target, "utf8")).replace(/^\uFEFF/, "");
}

/** A hash over a file's content, or over the names and contents of all a folder holds. */
export async function hashPath(target: string): Promise<string> {
  const hash = createHash("sha256");
  if ((await stat(target)).isFile()) {
    await pipeline((await open(target)).createReadStream(), hash);
    return hash.digest("hex");
  }
  const entries = await readdir(target, { withFileTypes: true, recursive: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
  for (const file of files.toSorted()) {
    hash.update(`${path.relative(target, file)}\0${await hashPath(file)}\0`);
  }
  return hash.digest("hex");
}
