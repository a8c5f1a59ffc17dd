import { PENDING } from "./delivery-columns.ts";
import { heavyRead } from "./operation.ts";
import { isQueued } from "./run-states.ts";

/** What waits in an app's queue. */
export type QueuedRuns = {
  readonly appNumber: number;
  /** Past a hundred thousand it stays at that. */
  readonly count: number;
  /** When the one that waits longest was accepted, in epoch milliseconds. */
  readonly oldestAt: number | null;
};

/** What waits to be delivered. */
export type PendingDeliveries = { readonly count: number; readonly oldestAt: number | null };

const MAX_COUNTED = 100_000;

/** Figures over everything that is stored, for those who watch the service. */
export const figures = {
  /** The async runs that wait, by app; apps without any are left out. */
  queuedRuns: heavyRead(async (session): Promise<QueuedRuns[]> => {
    const { db, sql } = session;
    // From app to app, as the backlog is found; 100,000 rows take 50 ms, and nobody needs to know more exactly.
    const { rows } = await sql<QueuedRuns>`
      with recursive queued (app_number) as (
        select min(app_number) from runs where ${isQueued(session)}
        union all
        select (
          select min(app_number) from runs
          where ${isQueued(session)} and app_number > queued.app_number
        )
        from queued where queued.app_number is not null
      )
      select queued.app_number, (
        select count(*) from (
          select 1 from runs as r
          where r.app_number = queued.app_number and ${isQueued(session, "r")}
          limit ${MAX_COUNTED}
        ) as counted
      ) as count, (
        select r.created_at from runs as r
        where r.app_number = queued.app_number and ${isQueued(session, "r")}
        order by r.id limit 1
      ) as oldest_at
      from queued where queued.app_number is not null
    `.execute(db);
    return rows;
  }),

  /** The deliveries that have not ended. */
  pendingDeliveries: heavyRead(async ({ db }): Promise<PendingDeliveries> => {
    const { count, oldestAt } = await db
      .selectFrom("deliveries")
      .select((eb) => [
        eb.fn.countAll<number>().as("count"),
        eb.fn.min<number | null>("createdAt").as("oldestAt"),
      ])
      .where("state", "=", (eb) => eb.lit(PENDING))
      .executeTakeFirstOrThrow();
    return { count, oldestAt };
  }),
};
