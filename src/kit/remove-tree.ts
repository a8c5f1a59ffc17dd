import path from "node:path";
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { chmod, entriesIn, mkdir, open, readdir, rename, rmdir, unlink } from "./files.ts";
import type { Log } from "./log.ts";

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants;
/** Finds without opening, which needs no right to read; Node does not name it. */
const O_PATH = 0o10000000;
/** Names that are held in memory at once, however many the folder has. */
const AT_ONCE = 10_000;
const OWN_RIGHTS = 0o700;
/** Folders that are open at once, however deep they are nested. */
const MAX_OPEN = 32;

/**
 * Removes a folder and its content, even while an app is still writing there. Follows no link, handles any depth, and
 * makes unreadable folders readable. Does nothing if the folder does not exist.
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

/** Moves a folder, even an unwritable one. Does nothing if it does not exist. */
async function moveFolder(folder: Buffer, to: Buffer): Promise<void> {
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
async function openFolder(place: Buffer): Promise<FileHandle | null> {
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
function inside({ fd }: FileHandle): Buffer {
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

/** Where folders go that are removed: out of sight in one step, then piece by piece. */
export class Trash {
  readonly #dir: string;
  readonly #log: Log;
  #emptying: Promise<void> = Promise.resolve();
  #isStopping = false;

  constructor(dir: string, log: Log) {
    this.#dir = dir;
    this.#log = log;
  }

  /** A new path in it, to which something is moved. */
  async freePath(): Promise<string> {
    await mkdir(this.#dir, { recursive: true, mode: 0o700 });
    return path.join(this.#dir, randomUUID());
  }

  /** Removes what is in it; resolves when that is done. What cannot be removed is tried again the next time. */
  async empty(): Promise<void> {
    this.#emptying = this.#removeAfter(this.#emptying);
    await this.#emptying;
  }

  /** What is left is removed after the next start. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#emptying;
  }

  async #removeAfter(before: Promise<void>): Promise<void> {
    await before;
    try {
      await this.#removeAll();
    } catch (error) {
      this.#log.error({ err: error }, "could not delete files that were removed; they still use disk space");
    }
  }

  /** What cannot be removed keeps nothing else from it; throws the first such error in the end. */
  async #removeAll(): Promise<void> {
    const errors = new Map<string, unknown>();
    while (!this.#isStopping) {
      const names = (await readdir(this.#dir).catch(() => [])).filter((name) => !errors.has(name));
      if (names.length === 0) break;
      for (const name of names)
        await this.#remove(path.join(this.#dir, name)).catch((error: unknown) => errors.set(name, error));
    }
    for (const error of errors.values()) throw error;
  }

  /**
   * A folder's folders are moved up beside it and wait for their turn: however deep they lie, one is open at a
   * time. Links are never followed, though an app may still be at work in there.
   */
  async #remove(target: string): Promise<void> {
    const folder = await openFolder(Buffer.from(target));
    if (!folder) {
      await unlink(target);
      return;
    }
    try {
      // Names as bytes: not every one is UTF-8.
      const here = inside(folder);
      for (const entry of await readdir(here, { withFileTypes: true, encoding: "buffer" })) {
        if (this.#isStopping) return;
        const place = Buffer.concat([here, entry.name]);
        if (entry.isDirectory()) await moveFolder(place, Buffer.from(await this.freePath()));
        else await unlink(place);
      }
    } finally {
      await folder.close();
    }
    await rmdir(target);
  }
}
