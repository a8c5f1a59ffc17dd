import path from "node:path";
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { absent, chmod, entriesIn, mkdir, nullFor, open, readdir, rename, rmdir, unlink } from "./files.ts";
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

/** `depth` folders are open with it, below `top`; null for the first, which is the top itself. */
async function removeFolder(place: Buffer, depth: number, top: FileHandle | null): Promise<void> {
  // An empty folder is removed without opening it, which would take descriptors.
  const isRemoved = await rmdir(place).then(
    () => true,
    () => false,
  );
  if (isRemoved) return;
  const folder = await openFolder(place);
  if (folder === null) {
    await unlink(place).catch(absent);
    return;
  }
  const highest = top ?? folder;
  try {
    await empty(folder, async (inner) => {
      if (depth < MAX_OPEN) await removeFolder(inner, depth + 1, highest);
      // Removed from there later.
      else await moveFolder(inner, Buffer.concat([inside(highest), Buffer.from(randomUUID())]));
    });
  } finally {
    await folder.close();
  }
  await rmdir(place).catch(absent);
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

/** Removes all files of a folder; `take` removes or moves each folder in it. */
async function empty(folder: FileHandle, take: (place: Buffer) => Promise<void>): Promise<void> {
  for (;;) {
    const batch = [];
    for await (const entry of entriesIn(inside(folder))) if (batch.push(entry) === AT_ONCE) break;
    if (batch.length === 0) return;
    for (const { name, isFolder } of batch) {
      const place = Buffer.concat([inside(folder), name]);
      // An entry that has become a folder meanwhile is removed in the next round.
      await (isFolder ? take(place) : unlink(place).catch(nullFor("ENOENT", "EISDIR")));
    }
  }
}

/** Opens a folder, and first makes it readable. Null if it is gone, or no folder. Its descriptor survives a rename. */
async function openFolder(place: Buffer): Promise<FileHandle | null> {
  const found = await open(place, O_PATH | O_DIRECTORY | O_NOFOLLOW).catch(
    nullFor("ENOENT", "ENOTDIR", "ELOOP"),
  );
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

/** The path to which the names in an open folder are appended. */
function inside({ fd }: FileHandle): Buffer {
  return Buffer.from(`/proc/self/fd/${fd}/`);
}

/** Removes folders in two steps: they are moved here at once, then removed piece by piece. */
export class Trash {
  readonly #dir: string;
  readonly #log: Log;
  #emptying: Promise<void> = Promise.resolve();
  #isStopping = false;

  constructor(dir: string, log: Log) {
    this.#dir = dir;
    this.#log = log;
  }

  /** A new path in it, to move a folder to. */
  async freePath(): Promise<string> {
    await mkdir(this.#dir, { recursive: true, mode: 0o700 });
    return path.join(this.#dir, randomUUID());
  }

  /** Removes its content; what cannot be removed is retried at the next call. */
  async empty(): Promise<void> {
    this.#emptying = this.#removeAfter(this.#emptying);
    await this.#emptying;
  }

  /** The rest is removed after the next start. */
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

  /** Continues after an error, and throws the first one at the end. */
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
   * Moves the folders in a folder up beside it, where they wait for their turn: at any depth, only one is open at a time.
   * Follows no link, because an app may still be writing there.
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
