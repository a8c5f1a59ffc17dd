import path from "node:path";
import { chmod, lstat, readdir, rm } from "./files.ts";

/**
 * Removes a folder with all that is in it, also where somebody else has filled it: a folder that not even its owner may
 * read keeps `rm` from what is inside. One that is gone is fine.
 */
export async function removeTree(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error;
    await openUp(folder);
    await rm(folder, { recursive: true, force: true });
  }
}

/** Links are not followed: what they lead to is not ours to open. */
async function openUp(folder: string): Promise<void> {
  await chmod(folder, 0o700);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const inner = path.join(folder, entry.name);
    if (entry.isDirectory() && (await lstat(inner)).isDirectory()) await openUp(inner);
  }
}
