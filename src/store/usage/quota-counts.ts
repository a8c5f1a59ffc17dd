import { write } from "../operation.ts";
import { chunks } from "../queries.ts";

/** What a node has counted of an account or a project that has quotas. */
export type QuotaCount = {
  readonly subject: string;
  /** In the last minute. */
  readonly calls: number;
  readonly running: number;
};

type Exchange = { readonly node: string; readonly counts: readonly QuotaCount[] };

/** Calls of a node that has stopped count as long as those of others; its runs have ended. */
const CALLS_MS = 60_000;
const RUNNING_MS = 5_000;
const KEPT_MS = 3600 * 1000;

/** How nodes tell each other what they have counted. */
export const quotaCounts = {
  /** Stores what this node has counted; returns what the others have, together, of the same subjects. */
  exchange: write(async ({ db, sql, databaseNow }, { node, counts }: Exchange): Promise<QuotaCount[]> => {
    const others: QuotaCount[] = [];
    for (const some of chunks(counts.toSorted((one, other) => (one.subject < other.subject ? -1 : 1)))) {
      await db
        .insertInto("quotaCounts")
        .values(some.map((count) => ({ ...count, node, countedAt: databaseNow })))
        .onConflict((conflict) =>
          conflict.columns(["subject", "node"]).doUpdateSet((eb) => ({
            calls: eb.ref("excluded.calls"),
            running: eb.ref("excluded.running"),
            countedAt: eb.ref("excluded.countedAt"),
          })),
        )
        .execute();
      const { rows } = await sql<QuotaCount>`
        select subject, cast(sum(calls) as bigint) as calls,
          cast(sum(case when counted_at > ${databaseNow} - ${RUNNING_MS} then running else 0 end) as bigint) as running
        from quota_counts
        where subject in (${sql.join(some.map(({ subject }) => subject))}) and node <> ${node}
          and counted_at > ${databaseNow} - ${CALLS_MS}
        group by subject
      `.execute(db);
      others.push(...rows);
    }
    return others;
  }),

  /** Removes what nodes counted long ago; returns how many counts. */
  prune: write(async ({ db, sql, databaseNow }): Promise<number> => {
    const removal = sql`delete from quota_counts where counted_at < ${databaseNow} - ${KEPT_MS}`;
    return Number((await removal.execute(db)).numAffectedRows);
  }),
};
