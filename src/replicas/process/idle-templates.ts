import { readFileSync } from "node:fs";
import { totalmem } from "node:os";

const PAGE_BYTES = 4096;
/** Idle templates may hold this share of the machine's memory. */
const SHARE = 1 / 4;

type Idle = { readonly bytes: number; readonly retire: () => void };

/** Templates kept without a replica, over all apps: beyond their share of memory the oldest goes first. */
export class IdleTemplates {
  readonly #idle = new Map<number, Idle>();
  readonly #maxBytes: number;

  constructor(maxBytes: number = totalmem() * SHARE) {
    this.#maxBytes = maxBytes;
  }

  /** The template with that pid has nothing to do; `retire` ends it. */
  add(pid: number, retire: () => void): void {
    this.#idle.set(pid, { bytes: residentBytes(pid), retire });
    let total = 0;
    for (const { bytes } of this.#idle.values()) total += bytes;
    for (const [oldest, { bytes, retire: end }] of this.#idle) {
      if (total <= this.#maxBytes) return;
      total -= bytes;
      this.#idle.delete(oldest);
      end();
    }
  }

  /** It works again, or is gone. */
  remove(pid: number): void {
    this.#idle.delete(pid);
  }
}

function residentBytes(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]) * PAGE_BYTES;
  } catch {
    return 0; // It has just ended.
  }
}
