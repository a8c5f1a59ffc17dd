import { lchown, lstat, readdir } from "./files.ts";

/**
 * Gives a folder and all that is in it to a user, whose group has the same number. No link is followed, and a file with
 * a second name stays whose it is: it may be anybody's.
 */
export async function giveTree(folder: string, user: number): Promise<void> {
  await giveAll(Buffer.from(folder), user);
}

/** By their bytes: not every name is UTF-8. */
async function giveAll(target: Buffer, user: number): Promise<void> {
  const found = await lstat(target);
  if (found.isFile() && found.nlink > 1) return;
  await lchown(target, user, user);
  if (!found.isDirectory()) return;
  for (const name of await readdir(target, { encoding: "buffer" }))
    await giveAll(Buffer.concat([target, Buffer.from("/"), name]), user);
}
