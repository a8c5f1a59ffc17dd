import { lchown } from "node:fs/promises";
import path from "node:path";
import { fileCall, readdir } from "./files.ts";

/** Gives a folder and all that is in it to a user, whose group has the same number. No link is followed. */
export async function giveTree(folder: string, user: number): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true }))
    await fileCall(() => lchown(path.join(entry.parentPath, entry.name), user, user));
  await fileCall(() => lchown(folder, user, user));
}
