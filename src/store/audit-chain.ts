import { createHash } from "node:crypto";
import type { AuditEntriesTable } from "./schema.ts";

/** One line of the audit log; `entry` is JSON, `hash` covers it and the hash before it. */
export type AuditEntry = Readonly<AuditEntriesTable>;

/** What stands for the hash before the first entry. */
export const NO_HASH = Buffer.alloc(32);

/** The hash of an entry that follows one with the hash `previous`. */
export function auditHash(
  previous: Uint8Array,
  { number, projectId, createdAt, entry }: Omit<AuditEntry, "hash">,
): Buffer {
  const text = JSON.stringify([number, projectId, createdAt, entry]);
  return createHash("sha256").update(previous).update(text).digest();
}

/** The last entry that was removed for its age: the log goes on after it. */
export type AuditAnchor = { readonly number: number; readonly hash: string };

/** The key of the anchor among the facts about the installation. */
export const ANCHOR_KEY = "audit_anchor";
/** Reads the anchor. */
export const AUDIT_ANCHOR = `select value from meta where key = '${ANCHOR_KEY}'`;

/** The anchor as it is stored; none before anything was removed. */
export function anchorOf(value: unknown): AuditAnchor | null {
  return typeof value === "string" ? (JSON.parse(value) as AuditAnchor) : null;
}

/** Follows the log from its first entry on: one that was changed, moved or taken out breaks the chain there. */
export class AuditChain {
  readonly #start: number;
  #previous: Buffer;
  #count: number;
  #brokenAt: number | null = null;

  constructor(anchor: AuditAnchor | null = null) {
    this.#start = anchor?.number ?? 0;
    this.#count = this.#start;
    this.#previous = anchor ? Buffer.from(anchor.hash, "hex") : NO_HASH;
  }

  add(entry: AuditEntry): void {
    if (this.#brokenAt !== null) return;
    const number = this.#count + 1;
    const expected = auditHash(this.#previous, entry);
    if (entry.number !== number || !expected.equals(entry.hash)) {
      this.#brokenAt = number;
      return;
    }
    this.#previous = expected;
    this.#count = number;
  }

  /** How many entries fit, and the number of the first one that does not; null when all do. */
  get state(): { readonly count: number; readonly brokenAt: number | null } {
    return { count: this.#count - this.#start, brokenAt: this.#brokenAt };
  }
}
