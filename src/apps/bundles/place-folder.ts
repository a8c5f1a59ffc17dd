import path from "node:path";
import { lstat, mkdir, open, rename, rm } from "../../kit/files.ts";

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
