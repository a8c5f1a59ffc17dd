import { lchown, lstat, readdir } from "./files.ts";

/** Gives a folder and all that is in it to a user, whose group has the same number. No link is followed. */
export async function giveTree(folder: string, user: number): Promise<void> {
  await giveAll(Buffer.from(folder), user);
}

/** By their bytes: not every name is UTF-8. */
async function giveAll(target: Buffer, user: number): Promise<void> {
  await lchown(target, user, user);
  if (!(await lstat(target)).isDirectory()) return;
  for (const name of await readdir(target, { encoding: "buffer" }))
    await giveAll(Buffer.concat([target, Buffer.from("/"), name]), user);
}
