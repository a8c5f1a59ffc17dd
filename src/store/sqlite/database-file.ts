import { open, stat } from "../../kit/files.ts";
import type { FileHandle } from "node:fs/promises";
import { DamagedStorage, damageFault, lossFault } from "../upkeep/storage-fault.ts";
import type { DatabaseFile, StorageFault } from "../upkeep/storage-fault.ts";
import { type FileIdentity, identifyLater, isSame } from "./connection.ts";
import type { ThreadClient } from "./thread-client.ts";

type CheckThread = Pick<ThreadClient, "call" | "close">;

const READ_AHEAD_BYTES = 1024 * 1024;

/** The condition of an open database's file. Damage is permanent; a lost file that is put back is trusted again. */
export class SqliteFile implements DatabaseFile {
  readonly #path: string;
  readonly #identity: FileIdentity;
  readonly #openThread: () => CheckThread;
  #problem: string | null = null;
  #isInPlace = true;
  #isClosed = false;
  #checking: Promise<void> | null = null;
  #looking: Promise<void> | null = null;
  /** Open as long as SQLite has the file open: closing any descriptor of it drops this process's locks on it. */
  #handle: FileHandle | null = null;

  constructor(path: string, identity: FileIdentity, openThread: () => CheckThread) {
    this.#path = path;
    this.#identity = identity;
    this.#openThread = openThread;
  }

  get fault(): StorageFault | null {
    if (this.#problem !== null) return damageFault(this.#path, this.#problem);
    return this.#isInPlace ? null : lossFault(this.#path);
  }

  /** Records damage that SQLite found during an operation. */
  noteDamage(problem: string): void {
    this.#problem ??= problem;
  }

  async bytes(): Promise<number> {
    return (await stat(this.#path)).size;
  }

  /** One at a time: on a disk that hangs, each would block one of the process's few file threads. */
  async look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => (this.#looking = null));
    await this.#looking;
  }

  async check(inSteps: boolean): Promise<void> {
    this.#checking ??= this.#check(inSteps).finally(() => (this.#checking = null));
    await this.#checking;
  }

  /** Waits for the current step of a check: SQLite cannot be interrupted. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#checking?.catch(() => {});
  }

  /** To be called after the last connection is closed. */
  async release(): Promise<void> {
    await this.#handle?.close();
  }

  async #look(): Promise<void> {
    this.#isInPlace = isSame(this.#identity, await identifyLater(this.#path));
  }

  /**
   * Reads the file into the page cache sequentially. A check reads pages in the order of their keys: 247 MB that were
   * not cached took 5.6 s, and 1.7 s after this.
   */
  async #readAhead(): Promise<void> {
    this.#handle ??= await open(this.#path, "r");
    const buffer = Buffer.allocUnsafe(READ_AHEAD_BYTES);
    for (let at = 0; !this.#isClosed; at += buffer.length)
      if ((await this.#handle.read(buffer, 0, buffer.length, at)).bytesRead < buffer.length) return;
  }

  /** Runs in a temporary thread: no read waits for it. */
  async #check(inSteps: boolean): Promise<void> {
    if (this.#isClosed) return;
    if (!inSteps) await this.#readAhead().catch(() => {});
    const thread = this.#openThread();
    try {
      const steps = inSteps ? ((await thread.call("integrity.tables", undefined)) as string[]) : [null];
      for (const table of steps) {
        if (this.#isClosed) return;
        const problem = (await thread.call("integrity.findDamage", table)) as string | null;
        if (problem === null) continue;
        this.noteDamage(problem);
        return;
      }
    } catch (error) {
      // Some damage stops the check itself; it was recorded.
      if (!(error instanceof DamagedStorage)) throw error;
    } finally {
      await thread.close();
    }
  }
}
