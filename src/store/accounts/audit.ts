import type { Row } from "../schema/schema.ts";
import { createHash } from "node:crypto";
import { read, write } from "../operation.ts";

/** One line of the audit log; `entry` is JSON, `hash` covers it and the hash before it. */
export type AuditEntry = Row<"auditEntries">;

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
type AuditAnchor = { readonly number: number; readonly hash: string };

/** The key of the anchor among the facts about the installation. */
const ANCHOR_KEY = "audit_anchor";
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

type AuditPage = {
  readonly projectId: string;
  readonly limit: number;
  /** Only entries before this one: the last number of the page before. */
  readonly before?: number;
};

/** The audit log: entries are added at its end and never changed. */
export const auditEntries = {
  /** The newest entry of all. */
  last: read(async ({ db }): Promise<AuditEntry | null> => {
    const row = await db
      .selectFrom("auditEntries")
      .selectAll()
      .orderBy("number", "desc")
      .limit(1)
      .executeTakeFirst();
    return row ?? null;
  }),

  /** False when another entry has taken the number. */
  append: write(async ({ db }, entry: AuditEntry): Promise<boolean> => {
    const result = await db
      .insertInto("auditEntries")
      .values(entry)
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst();
    return result.numInsertedOrUpdatedRows === 1n;
  }),

  /** Removes the oldest entries that were made before that time, but never the newest of all; returns how many. */
  expire: write(
    async (
      { db },
      { before, limit }: { readonly before: number; readonly limit: number },
    ): Promise<number> => {
      const oldest = await db
        .selectFrom("auditEntries")
        .select(["number", "createdAt", "hash"])
        .orderBy("number")
        .limit(limit + 1)
        .execute();
      // One that is young ends it, whatever a clock that was wrong made of those after it.
      const end = oldest.findIndex(({ createdAt }) => createdAt >= before);
      const old = oldest.slice(0, Math.min(end < 0 ? limit : end, oldest.length - 1));
      const last = old.at(-1);
      if (!last) return 0;
      const value = JSON.stringify({ number: last.number, hash: Buffer.from(last.hash).toString("hex") });
      await db
        .insertInto("meta")
        .values({ key: ANCHOR_KEY, value })
        .onConflict((conflict) => conflict.column("key").doUpdateSet({ value }))
        .execute();
      await db.deleteFrom("auditEntries").where("number", "<=", last.number).execute();
      return old.length;
    },
  ),

  /** A project's entries, newest first. */
  list: read(async ({ db }, { projectId, limit, before }: AuditPage): Promise<AuditEntry[]> => {
    let query = db.selectFrom("auditEntries").selectAll().where("projectId", "=", projectId);
    if (before !== undefined) query = query.where("number", "<", before);
    return await query.orderBy("number", "desc").limit(limit).execute();
  }),
};
