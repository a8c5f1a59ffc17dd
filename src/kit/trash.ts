import { randomUUID } from "node:crypto";
import path from "node:path";
import { mkdir, readdir, rmdir, unlink } from "./files.ts";
import type { Log } from "./log.ts";
import { inside, moveFolder, openFolder } from "./remove-tree.ts";

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
