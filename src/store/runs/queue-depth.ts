import type { RawBuilder } from "kysely";
import { heavyRead, type Session } from "../operation.ts";
import { isParked } from "./key-limits.ts";
import { isDue, isInState, isQueued, placeInQueue } from "./run-columns.ts";

/** What waits for its turn in an app's queue, and what runs. */
export type QueueDepth = {
  /** By head start: ahead of time, in time, behind. */
  readonly high: number;
  readonly normal: number;
  readonly low: number;
  /** There are more, which are not counted. */
  readonly hasMore: boolean;
  /** When the first of them was accepted. */
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
      select
        coalesce(sum(case when head_start > 0 then 1 else 0 end), 0) as high,
        coalesce(sum(case when head_start = 0 then 1 else 0 end), 0) as normal,
        coalesce(sum(case when head_start < 0 then 1 else 0 end), 0) as low,
        (select created_at from runs where app_number = ${appNumber} and ${isQueued(session)} and due_at is null
          order by id limit 1) as oldest_at,
        (select count(*) from runs where app_number = ${appNumber} and ${isInState(session, "running")} and is_async = 1) as running,
        (select count(*) from (
          select 1 from runs where runs.app_number = ${appNumber} and ${isParked(session)} limit ${most}
        ) as counted) as parked
      from (
        select ${headStart(session)} as head_start from runs
        where runs.app_number = ${appNumber} and ${isDue(session)} limit ${most + 1}
      ) as counted
    `.execute(db);
    const { high, normal, low, running, parked, oldestAt } = rows[0]!;
    const [ahead, inTime, behind] = [Number(high), Number(normal), Number(low)];
    const others = { running: Number(running), parked: Number(parked), oldestAt };
    return { high: ahead, normal: inTime, low: behind, ...others, hasMore: ahead + inTime + behind > most };
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
