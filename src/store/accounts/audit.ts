import { createHash } from "node:crypto";
import { setMeta } from "../meta.ts";
import { read, type Row, write } from "../operation.ts";
import { doNothing, firstOf, isDone } from "../queries.ts";

/** One line of the audit log; `entry` is JSON, `hash` covers it and the hash before it. */
export type AuditEntry = Row<"auditEntries">;

/** The hash before the first entry. */
export const NO_HASH = Buffer.alloc(32);

/** The hash of an entry that follows one with the hash `previous`. */
export function auditHash(
  previous: Uint8Array,
  { number, projectId, createdAt, entry }: Omit<AuditEntry, "hash">,
): Buffer {
  const text = JSON.stringify([number, projectId, createdAt, entry]);
  return createHash("sha256").update(previous).update(text).digest();
}

/** The last entry that was removed because of its age: the log continues after it. */
export type AuditAnchor = { readonly number: number; readonly hash: string };

const ANCHOR_KEY = "audit_anchor";
export const AUDIT_ANCHOR = `select value from meta where key = '${ANCHOR_KEY}'`;

/** The anchor as it is stored; null if nothing was removed yet. */
export function anchorOf(value: unknown): AuditAnchor | null {
  return typeof value === "string" ? (JSON.parse(value) as AuditAnchor) : null;
}

/** Verifies the log from its first entry on: an entry that was changed, moved or removed breaks the chain there. */
export class AuditChain {
  #previous: Buffer;
  #next: number;
  /** How many entries are intact, and the number of the first that is not; null if all are. */
  readonly state: { count: number; brokenAt: number | null } = { count: 0, brokenAt: null };

  constructor(anchor: AuditAnchor | null = null) {
    this.#next = (anchor?.number ?? 0) + 1;
    this.#previous = anchor ? Buffer.from(anchor.hash, "hex") : NO_HASH;
  }

  add(entry: AuditEntry): void {
    if (this.state.brokenAt !== null) return;
    const expected = auditHash(this.#previous, entry);
    if (entry.number !== this.#next || !expected.equals(entry.hash)) {
      this.state.brokenAt = this.#next;
      return;
    }
    this.#previous = expected;
    this.#next += 1;
    this.state.count += 1;
  }
}

type Expiry = { readonly before: number; readonly limit: number };
/** Only entries `before` that one: the last number of the page before. */
type AuditPage = { readonly projectId: string; readonly limit: number; readonly before?: number };

/** The audit log: entries are added at its end and never changed. */
export const auditEntries = {
  /** The newest entry of all projects. */
  last: read(
    async ({ db }): Promise<AuditEntry | null> =>
      await firstOf(db.selectFrom("auditEntries").selectAll().orderBy("number", "desc").limit(1)),
  ),

  /** False if another entry has the number. */
  append: write(
    async ({ db }, entry: AuditEntry): Promise<boolean> =>
      await isDone(db.insertInto("auditEntries").values(entry).onConflict(doNothing)),
  ),

  /** Removes the oldest entries made before that time, but never the newest of all; returns how many. */
  expire: write(async ({ db }, { before, limit }: Expiry): Promise<number> => {
    const entries = db.selectFrom("auditEntries").select(["number", "createdAt", "hash"]).orderBy("number");
    const oldest = await entries.limit(limit + 1).execute();
    // Stops at the first young entry, even if a wrong clock made later ones look older.
    const end = oldest.findIndex(({ createdAt }) => createdAt >= before);
    const old = oldest.slice(0, Math.min(end < 0 ? limit : end, oldest.length - 1));
    const last = old.at(-1);
    if (!last) return 0;
    const anchor: AuditAnchor = { number: last.number, hash: Buffer.from(last.hash).toString("hex") };
    await setMeta(db, ANCHOR_KEY, JSON.stringify(anchor));
    await db.deleteFrom("auditEntries").where("number", "<=", last.number).execute();
    return old.length;
  }),

  /** A project's entries, newest first. */
  list: read(async ({ db }, { projectId, limit, before }: AuditPage): Promise<AuditEntry[]> => {
    let query = db.selectFrom("auditEntries").selectAll().where("projectId", "=", projectId);
    if (before !== undefined) query = query.where("number", "<", before);
    return await query.orderBy("number", "desc").limit(limit).execute();
  }),
};
