import { createHash } from "node:crypto";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { lstat, namesIn, open, readFile, realpath, stat, withHandle } from "../../kit/files.ts";
import { BuildError } from "./site.ts";

/** A list of packages or commands is shorter. */
const MAX_TEXT_BYTES = 1024 * 1024;
/** Of a package in the bundle: more would take minutes, or fill the memory with names. */
const MAX_HASHED_BYTES = 32 * 1024 ** 3;
const MAX_HASHED_FILES = 50_000;
const NAMES_AT_ONCE = 32;

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

/** A hash over a file, or over all of a folder. Throws a `BuildError` if that is too much: a command may have made it. */
export async function hashPath(target: string, signal: AbortSignal): Promise<string> {
  if ((await stat(target)).isFile()) return await hashFile(target, signal);
  const hash = createHash("sha256");
  for (const file of (await filesBelow(target)).toSorted())
    hash.update(`${path.relative(target, file)}\0${await hashFile(file, signal)}\0`);
  return hash.digest("hex");
}

async function hashFile(file: string, signal: AbortSignal): Promise<string> {
  return await withHandle(await open(file), async (handle) => {
    requireLittle((await handle.stat()).size, file);
    const hash = createHash("sha256");
    await pipeline(handle.createReadStream({ end: MAX_HASHED_BYTES, autoClose: false }), hash, { signal });
    return hash.digest("hex");
  });
}

async function filesBelow(target: string): Promise<string[]> {
  const files: string[] = [];
  let bytes = 0;
  for await (const { place, found, waiting } of entriesBelow(target)) {
    if (found.isFile()) {
      files.push(place);
      bytes += found.size;
    }
    requireLittle(bytes, target);
    if (files.length + waiting > MAX_HASHED_FILES)
      throw new BuildError(`${path.basename(target)} has more than ${MAX_HASHED_FILES} files`);
  }
  return files;
}

/** All that is below a folder, with how many folders are still to be read; links are not followed. */
export async function* entriesBelow(target: string) {
  const folders = [target];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop())
    for await (const name of namesIn(folder, NAMES_AT_ONCE)) {
      const place = path.join(folder, name);
      const found = await lstat(place);
      if (found.isDirectory()) folders.push(place);
      yield { place, found, waiting: folders.length };
    }
}

function requireLittle(bytes: number, target: string): void {
  if (bytes > MAX_HASHED_BYTES) throw new BuildError(`${path.basename(target)} is larger than 32 GiB`);
}
