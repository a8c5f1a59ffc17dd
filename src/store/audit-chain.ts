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

/** Follows the log from its first entry on: one that was changed, moved or taken out breaks the chain there. */
export class AuditChain {
  #previous: Buffer = NO_HASH;
  #count = 0;
  #brokenAt: number | null = null;

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
    return { count: this.#count, brokenAt: this.#brokenAt };
  }
}
