import path from "node:path";
import { copyFile, lstat, mkdir, open, rename, rm, stat } from "../../kit/files.ts";
import { constants } from "node:fs";
import { type BundlePatterns, DEFAULT_PATTERNS, listBundleFiles } from "./list-files.ts";
import { forEachConcurrently } from "../../kit/concurrency.ts";

const FOLDER_MODE = 0o755;

/**
 * Makes a folder that appears under its name whole and safely on the disk, or not at all. `fill` is given the folder
 * as it is made aside, writes and syncs its files, and says which folders below it made.
 */
export async function placeFolder<T extends { readonly folders: readonly string[] }>(
  into: string,
  fill: (aside: string) => Promise<T>,
): Promise<T> {
  const aside = `${into}.part`;
  const parent = path.dirname(into);
  await mkdir(parent, { recursive: true, mode: 0o700 });
  if (await isThere(into)) throw new Error(`${into} exists already`);
  // Left by a service that was killed.
  await rm(aside, { recursive: true, force: true });
  try {
    await makeFolder(aside);
    const filled = await fill(aside);
    for (const folder of filled.folders) await syncFolder(path.join(aside, folder));
    await syncFolder(aside);
    await rename(aside, into);
    await syncFolder(parent);
    return filled;
  } catch (error) {
    await rm(aside, { recursive: true, force: true });
    throw error;
  }
}

/** A new folder that others may read, whatever the process's mask: replicas may run as somebody else. */
export async function makeFolder(target: string): Promise<void> {
  await mkdir(target);
  const folder = await open(target, "r");
  try {
    await folder.chmod(FOLDER_MODE);
  } finally {
    await folder.close();
  }
}

/** Waits until what a folder lists is on the disk. */
export async function syncFolder(target: string): Promise<void> {
  const folder = await open(target, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

async function isThere(target: string): Promise<boolean> {
  try {
    await lstat(target);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

const FILES_AT_ONCE = 8;

/** Copies a folder's files, following links, into a new folder: whole and synced, or nothing is left. */
export async function copyFolder(
  from: string,
  to: string,
  patterns: BundlePatterns = DEFAULT_PATTERNS,
): Promise<void> {
  const files = await listBundleFiles(from, patterns);
  const folders = foldersOf(files.map(({ name }) => name));
  await placeFolder(to, async (aside) => {
    for (const folder of folders) await makeFolder(path.join(aside, folder));
    await forEachConcurrently(
      files,
      FILES_AT_ONCE,
      async (file) => await copy(file.path, path.join(aside, file.name)),
    );
    return { folders };
  });
}

async function copy(from: string, to: string): Promise<void> {
  await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  const { mode } = await stat(from);
  const file = await open(to, "r");
  try {
    await file.chmod((mode & 0o100) === 0 ? 0o644 : 0o755);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Every folder on the way to the files, parents first. */
function foldersOf(names: readonly string[]): string[] {
  const folders = new Set<string>();
  for (const name of names) {
    const above = name.split("/").slice(0, -1);
    for (const [index] of above.entries()) folders.add(above.slice(0, index + 1).join("/"));
  }
  return [...folders];
}
