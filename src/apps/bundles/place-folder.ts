import path from "node:path";
import { absent, copyFile, lstat, mkdir, open, rename, rm, stat, withHandle } from "../../kit/files.ts";
import { constants } from "node:fs";
import { type BundlePatterns, listBundleFiles } from "./list-files.ts";
import { forEachConcurrently } from "../../kit/concurrency.ts";

const FOLDER_MODE = 0o755;

/** Makes a folder that appears whole and synced, or not at all. `fill` syncs its files, and names the folders it made. */
export async function placeFolder<T extends { readonly folders: readonly string[] }>(
  into: string,
  fill: (aside: string) => Promise<T>,
): Promise<T> {
  const aside = `${into}.part`;
  const parent = path.dirname(into);
  await mkdir(parent, { recursive: true, mode: 0o700 });
  if (await lstat(into).catch(absent)) throw new Error(`${into} exists already`);
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

/** Makes a folder that others may read, whatever the process's mask: replicas may run as another user. */
export async function makeFolder(target: string): Promise<void> {
  await mkdir(target);
  await withHandle(await open(target, "r"), (folder) => folder.chmod(FOLDER_MODE));
}

/** Waits until a file, or the list of names in a folder, is on the disk. */
export async function syncFolder(target: string): Promise<void> {
  await withHandle(await open(target, "r"), (folder) => folder.sync());
}

const FILES_AT_ONCE = 8;

/** Copies a folder's files, following links, into a new folder: whole and synced, or nothing is left. */
export async function copyFolder(from: string, to: string, patterns: BundlePatterns): Promise<void> {
  const files = await listBundleFiles(from, patterns);
  const folders = foldersOf(files.map(({ name }) => name));
  await placeFolder(to, async (aside) => {
    for (const folder of folders) await makeFolder(path.join(aside, folder));
    await forEachConcurrently(files, FILES_AT_ONCE, (file) => copy(file.path, path.join(aside, file.name)));
    return { folders };
  });
}

async function copy(from: string, to: string): Promise<void> {
  await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  const { mode } = await stat(from);
  await withHandle(await open(to, "r"), async (file) => {
    await file.chmod((mode & 0o100) === 0 ? 0o644 : 0o755);
    await file.sync();
  });
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
