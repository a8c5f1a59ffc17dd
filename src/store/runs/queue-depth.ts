import type { RawBuilder } from "kysely";
import { heavyRead, type Session } from "../operation.ts";
import { isParked } from "./key-limits.ts";
import { isDue, isInState, placeInQueue } from "./run-columns.ts";

/** What waits for its turn in an app's queue, and what runs. */
export type QueueDepth = {
  /** By head start: ahead of time, in time, behind. */
  readonly high: number;
  readonly normal: number;
  readonly low: number;
  /** There are more, which are not counted. */
  readonly hasMore: boolean;
  /** When the first of those that were counted was accepted. */
  readonly oldestAt: number | null;
  readonly running: number;
  /** Those that wait until fewer runs of their concurrency key run. */
  readonly parked: number;
};

type DepthQuery = { readonly appNumber: number; readonly most: number };

/** Counts an app's async runs. */
export const queueDepth = {
  /** Counts up to `most` of those that wait, the first ones, and as many that are parked. */
  of: heavyRead(async (session, { appNumber, most }: DepthQuery): Promise<QueueDepth> => {
    const { sql, db } = session;
    const { rows } = await sql<
      Record<"high" | "normal" | "low" | "running" | "parked", number> & { oldestAt: number | null }
    >`
      with counted as (
        select id, ${headStart(session)} as head_start from runs
        where runs.app_number = ${appNumber} and ${isDue(session)} limit ${most + 1}
      )
      select
        coalesce(sum(case when head_start > 0 then 1 else 0 end), 0) as high,
        coalesce(sum(case when head_start = 0 then 1 else 0 end), 0) as normal,
        coalesce(sum(case when head_start < 0 then 1 else 0 end), 0) as low,
        (select created_at from runs where app_number = ${appNumber}
          and id = (select id from counted order by id limit 1)) as oldest_at,
        (select count(*) from runs where app_number = ${appNumber} and ${isInState(session, "running")} and is_async = 1) as running,
        (select count(*) from (
          select 1 from runs where runs.app_number = ${appNumber} and ${isParked(session)} limit ${most}
        ) as counted) as parked
      from counted
    `.execute(db);
    const depth = rows[0]!;
    return { ...depth, hasMore: depth.high + depth.normal + depth.low > most };
  }),
};

/**
 * Above 0, 0 or below. A place is as long as an id unless a priority or a delay has moved it; only of such runs are the
 * terms read, whose JSON begins with the priority.
 */
function headStart(session: Session): RawBuilder<number> {
  const { sql } = session;
  return sql<number>`case
    when length(${placeInQueue(session)}) = 16 then 0
    when runs.terms like '{"priority":-%' then -1
    when runs.terms like '{"priority":0,%' then 0
    else 1 end`;
}
