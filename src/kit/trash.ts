import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import path from "node:path";
import { mkdir, open, readdir, rename, rmdir, unlink } from "./files.ts";
import type { Log } from "./log.ts";

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants;

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

  async #removeAll(): Promise<void> {
    while (!this.#isStopping) {
      const names = await readdir(this.#dir).catch(() => []);
      if (names.length === 0) return;
      for (const name of names) await this.#remove(path.join(this.#dir, name));
    }
  }

  /**
   * A folder's folders are moved up beside it and wait for their turn: however deep they lie, one is open at a
   * time. Links are never followed, though an app may still be at work in there.
   */
  async #remove(target: string): Promise<void> {
    const folder = await open(target, O_RDONLY | O_DIRECTORY | O_NOFOLLOW).catch(() => null);
    if (!folder) {
      await unlink(target);
      return;
    }
    try {
      // Names as bytes: not every one is UTF-8.
      const here = Buffer.from(`/proc/self/fd/${folder.fd}/`);
      for (const entry of await readdir(here, { withFileTypes: true, encoding: "buffer" })) {
        if (this.#isStopping) return;
        const inside = Buffer.concat([here, entry.name]);
        if (entry.isDirectory()) await rename(inside, await this.freePath());
        else await unlink(inside);
      }
    } finally {
      await folder.close();
    }
    await rmdir(target);
  }
}
