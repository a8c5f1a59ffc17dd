import { ANCHOR_KEY } from "./audit-chain.ts";
import type { AuditEntry } from "./audit-chain.ts";
import { read, write } from "./operation.ts";

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
