import { read } from "./operation.ts";

/** What waits in an app's queue. */
export type QueuedRuns = {
  readonly appNumber: number;
  readonly count: number;
  /** When the one that waits longest was accepted, in epoch milliseconds. */
  readonly oldestAt: number | null;
};

/** What waits to be delivered. */
export type PendingDeliveries = { readonly count: number; readonly oldestAt: number | null };

/** Figures over everything that is stored, for those who watch the service. */
export const figures = {
  /** The async runs that wait, by app; apps without any are left out. */
  queuedRuns: read(async ({ db, sql }): Promise<QueuedRuns[]> => {
    // Unfinished ones less running ones, each counted from an index alone: 100,000 take a few milliseconds.
    const { rows } = await sql<{ appNumber: number; count: number | string; oldestAt: number | null }>`
      select unfinished.app_number, unfinished.total - coalesce(running.total, 0) as count, (
        select r.created_at from runs as r
        where r.app_number = unfinished.app_number and r.state = 0 and r.state in (0, 1)
        order by r.id limit 1
      ) as oldest_at
      from (select app_number, count(*) as total from runs where state in (0, 1) group by app_number) as unfinished
      left join (select app_number, count(*) as total from runs where state = 1 group by app_number) as running
        on running.app_number = unfinished.app_number
    `.execute(db);
    // Postgres gives a count as text.
    return rows
      .map(({ appNumber, count, oldestAt }) => ({ appNumber, count: Number(count), oldestAt }))
      .filter(({ count }) => count > 0);
  }),

  /** The deliveries that have not ended. */
  pendingDeliveries: read(async ({ db }): Promise<PendingDeliveries> => {
    const { count, oldestAt } = await db
      .selectFrom("deliveries")
      .select((eb) => [
        eb.fn.countAll<number | string>().as("count"),
        eb.fn.min<number | null>("createdAt").as("oldestAt"),
      ])
      .where("state", "=", (eb) => eb.lit(0))
      .executeTakeFirstOrThrow();
    return { count: Number(count), oldestAt };
  }),
};
