import { constants } from "node:fs";
import path from "node:path";
import { copyFile, open, stat } from "../../kit/files.ts";
import { type BundlePatterns, DEFAULT_PATTERNS, listBundleFiles } from "./list-files.ts";
import { makeFolder, placeFolder } from "./place-folder.ts";
import { forEachConcurrently } from "../../kit/concurrency.ts";

const FILES_AT_ONCE = 8;

/**
 * Copies a folder's files into a folder that must not exist: whole and safely on the disk, or nothing is left.
 * What a link leads to is copied, not the link.
 */
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
