import { totalmem } from "node:os";

/** Idle templates may hold this share of the machine's memory. */
const SHARE = 1 / 4;

type Idle = { readonly bytes: number; readonly retire: () => void };

/** Templates kept without a replica, over all apps: beyond their share of memory the oldest goes first. */
export class IdleTemplates {
  /** By owner; a template cannot choose its own key. */
  readonly #idle = new Map<object, Idle>();
  readonly #maxBytes: number;

  constructor(maxBytes: number = totalmem() * SHARE) {
    this.#maxBytes = maxBytes;
  }

  /** The template of that owner has nothing to do, and holds so much; `retire` ends it. */
  add(owner: object, bytes: number, retire: () => void): void {
    this.#idle.set(owner, { bytes, retire });
    let total = 0;
    for (const idle of this.#idle.values()) total += idle.bytes;
    for (const [oldest, idle] of this.#idle) {
      if (total <= this.#maxBytes) return;
      total -= idle.bytes;
      this.#idle.delete(oldest);
      idle.retire();
    }
  }

  /** It works again, or is gone. */
  remove(owner: object): void {
    this.#idle.delete(owner);
  }
}
