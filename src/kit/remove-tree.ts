import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { chmod, entriesIn, open, rename, rmdir, unlink } from "./files.ts";

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants;
/** Finds without opening, which needs no right to read; Node does not name it. */
const O_PATH = 0o10000000;
/** Names that are held at once: whoever filled the folder decides how many there are. */
const AT_ONCE = 10_000;
const OWN_RIGHTS = 0o700;
/** Folders that are open at once: whoever made them decides how deep they are. */
const MAX_OPEN = 32;

/**
 * Removes a folder with all that is in it, also where somebody else has filled it and may still be at work in there: no
 * link is followed, however deep folders lie, and those that nobody may read are opened up. One that is gone is fine.
 */
export async function removeTree(target: string): Promise<void> {
  await removeFolder(Buffer.from(target), 1, null);
}

/** `depth` is how many are open with it, below `top`; null for the first, which is the top itself. */
async function removeFolder(place: Buffer, depth: number, top: FileHandle | null): Promise<void> {
  // An empty one goes at once, without the descriptors that a look into it takes.
  if (await isRemoved(place)) return;
  const folder = await openFolder(place);
  if (folder === null) return await unlink(place).catch(absent);
  const highest = top ?? folder;
  try {
    await empty(folder, async (inner) => {
      if (depth < MAX_OPEN) await removeFolder(inner, depth + 1, highest);
      // To the top, where it waits for its turn.
      else await moveFolder(inner, Buffer.concat([inside(highest), Buffer.from(randomUUID())]));
    });
  } finally {
    await folder.close();
  }
  await rmdir(place).catch(absent);
}

async function isRemoved(place: Buffer): Promise<boolean> {
  return await rmdir(place).then(
    () => true,
    () => false,
  );
}

/** Moves a folder, also one that nobody may change. One that is gone is fine. */
export async function moveFolder(folder: Buffer, to: Buffer): Promise<void> {
  try {
    await rename(folder, to).catch(absent);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error;
    // To move a folder takes the right to write to it.
    await (await openFolder(folder))?.close();
    await rename(folder, to).catch(absent);
  }
}

/** Removes all files of a folder; what is done to each folder in there takes it away too. */
async function empty(folder: FileHandle, take: (place: Buffer) => Promise<void>): Promise<void> {
  for (;;) {
    const batch = [];
    for await (const entry of entriesIn(inside(folder))) if (batch.push(entry) === AT_ONCE) break;
    if (batch.length === 0) return;
    for (const { name, isFolder } of batch) {
      const place = Buffer.concat([inside(folder), name]);
      await (isFolder ? take(place) : unlink(place).catch(absentOrFolder));
    }
  }
}

/**
 * Held by its descriptor: whatever takes its name meanwhile is not it. One that nobody may read is opened up. Null for
 * what is no folder, or is gone.
 */
export async function openFolder(place: Buffer): Promise<FileHandle | null> {
  const found = await open(place, O_PATH | O_DIRECTORY | O_NOFOLLOW).catch(notAFolder);
  if (found === null) return null;
  try {
    const self = `/proc/self/fd/${found.fd}`;
    const { mode } = await found.stat();
    if ((mode & OWN_RIGHTS) !== OWN_RIGHTS) await chmod(self, OWN_RIGHTS);
    return await open(self, O_RDONLY | O_DIRECTORY);
  } finally {
    await found.close();
  }
}

/** What the names in an open folder are appended to. */
export function inside({ fd }: FileHandle): Buffer {
  return Buffer.from(`/proc/self/fd/${fd}/`);
}

function notAFolder(error: NodeJS.ErrnoException): null {
  if (error.code === "ENOENT" || error.code === "ENOTDIR" || error.code === "ELOOP") return null;
  throw error;
}

function absent(error: NodeJS.ErrnoException): void {
  if (error.code !== "ENOENT") throw error;
}

/** What has become a folder meanwhile is one the next time. */
function absentOrFolder(error: NodeJS.ErrnoException): void {
  if (error.code !== "EISDIR") absent(error);
}
