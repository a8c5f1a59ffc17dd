import { lchown } from "node:fs/promises";
import path from "node:path";
import { fileCall, lstat, readdir } from "./files.ts";

/**
 * Gives a folder and all that is in it to a user, whose group has the same number. No link is followed, and a file with
 * a second name stays whose it is: it may be anybody's.
 */
export async function giveTree(folder: string, user: number): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    const inner = path.join(entry.parentPath, entry.name);
    if (entry.isFile() && (await lstat(inner)).nlink > 1) continue;
    await fileCall(() => lchown(inner, user, user));
  }
  await fileCall(() => lchown(folder, user, user));
}
