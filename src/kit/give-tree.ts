import { lchown, lstat, readdir } from "./files.ts";

/**
 * Gives a folder and all that is in it to a user, whose group has the same number. No link is followed. A file with a
 * second name stays whose it is, as it may be anybody's, and so does what lies deeper than a path can say.
 */
export async function giveTree(folder: string, user: number): Promise<void> {
  await giveAll(Buffer.from(folder), user);
}

/** By their bytes: not every name is UTF-8. */
async function giveAll(target: Buffer, user: number): Promise<void> {
  const found = await lstat(target).catch(tooDeep);
  if (found === null || (found.isFile() && found.nlink > 1)) return;
  await lchown(target, user, user);
  if (!found.isDirectory()) return;
  for (const name of await readdir(target, { encoding: "buffer" }))
    await giveAll(Buffer.concat([target, Buffer.from("/"), name]), user);
}

function tooDeep(error: NodeJS.ErrnoException): null {
  if (error.code === "ENAMETOOLONG") return null;
  throw error;
}
