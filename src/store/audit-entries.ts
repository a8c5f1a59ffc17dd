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

  /** A project's entries, newest first. */
  list: read(async ({ db }, { projectId, limit, before }: AuditPage): Promise<AuditEntry[]> => {
    let query = db.selectFrom("auditEntries").selectAll().where("projectId", "=", projectId);
    if (before !== undefined) query = query.where("number", "<", before);
    return await query.orderBy("number", "desc").limit(limit).execute();
  }),
};
