import { appsFound } from "../queries.ts";
import { firstIdAt, uuidText } from "../../kit/ids.ts";
import { CLASS_RATIO, SpanClasses } from "../../kit/histograms.ts";
import { type Run, RUN_STATES, type RunState } from "../../model/run.ts";
import { heavyRead, type Session } from "../operation.ts";
import { isDue, isInState, STATE_CODES } from "./run-columns.ts";
import { PENDING } from "./deliveries.ts";

/** A span of time in epoch milliseconds, without its end. */
type Slice = readonly [fromMs: number, toMs: number];

/** The counted groups, complete since `sinceMs`. */
type Counted<Group> = { readonly groups: readonly Group[]; readonly sinceMs: number };

const FIRST_MS = 60_000;
const LEAST_SLICE_MS = 1_000;
const GROWTH = 4;
/** Each takes as long as the whole may take. */
const MAX_OVERFLOWS = 2;

/**
 * Counts from the newest run back, in slices sized by the previous ones, until all is counted or `maxRuns` rows were
 * read. Keys are ordered only within each app: one statement over many apps could not stop after the newest.
 */
export async function countSlices<Group extends { readonly count: number }>(
  whole: { readonly fromMs: number; readonly toMs: number; readonly maxRuns: number },
  count: (slice: Slice, limit: number) => Promise<readonly Group[]>,
): Promise<Counted<Group>> {
  const { fromMs, toMs, maxRuns } = whole;
  const groups: Group[] = [];
  let sinceMs = toMs;
  let left = maxRuns;
  let sliceMs = FIRST_MS;
  let overflows = 0;
  while (sinceMs > fromMs && overflows < MAX_OVERFLOWS) {
    const startMs = Math.max(fromMs, sinceMs - sliceMs);
    const found = await count([startMs, sinceMs], left + 1);
    const seen = found.reduce((sum, group) => sum + group.count, 0);
    if (seen > left) {
      overflows += 1;
      sliceMs = (sinceMs - startMs) / GROWTH ** 2;
      // A part of a minute with more than `maxRuns` runs is better than nothing.
      if (sinceMs === toMs && overflows === MAX_OVERFLOWS) groups.push(...found);
      continue;
    }
    groups.push(...found);
    left -= seen;
    // Half of the rows that may still be read, at this rate.
    const fittingMs = seen === 0 ? Number.POSITIVE_INFINITY : ((sinceMs - startMs) * left) / seen / 2;
    sliceMs = Math.max(LEAST_SLICE_MS, Math.min(sliceMs * GROWTH, fittingMs));
    sinceMs = startMs;
  }
  return { groups, sinceMs };
}

/** A project or one of its apps; null for all apps that are not deleted. */
type RunScope = { readonly projectId: string; readonly appNumber: number | null };

/** The runs that were accepted in a span of time. */
type RunSpan = RunScope & {
  /** From the first step's start to the end of the last, in epoch milliseconds. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly stepMs: number;
  /** How many runs to read at most, the newest ones. */
  readonly maxRuns: number;
};
type FailureSpan = RunSpan & { readonly limit: number };

/** How some runs ended. */
export type RunFigures = {
  readonly byState: Readonly<Record<RunState, number>>;
  /** The failures that their callers caused. */
  readonly callerErrors: number;
  /** How many waited until their replica was ready. */
  readonly cold: number;
  /** Percentiles of the response times; null if no run ended. */
  readonly p50Ms: number | null;
  readonly p95Ms: number | null;
  readonly p99Ms: number | null;
};

/** Figures of a span; before `sinceMs` runs are left out. */
type SpanFigures = Readonly<{ steps: readonly RunFigures[]; total: RunFigures; sinceMs: number }>;

/** The runs of an app: how many in each step, how many of these failed without their callers' fault, and all together. */
type AppTraffic = {
  readonly appNumber: number;
  readonly runs: number[];
  readonly failures: number[];
  readonly total: RunFigures;
};

/** A run that failed. */
type FailedRun = Pick<Run, "appNumber" | "id" | "functionName" | "createdAt" | "errorCode" | "errorMessage">;

/** Runs of one step, state and about one response time, all cold or none; packed into a number by `packedClass`. */
type RunClass = { readonly packed: number; readonly count: number };
type ClassOfApp = RunClass & { readonly appNumber: number };

const MAX_MESSAGE_CHARS = 500;
/** The packed class of 1 ms: there are as many below it as above. */
const CLASS_ZERO = 512;
const LEAST_MS = 0.01;
const MOST_MS = 10 ** 10;
const STATE_SIZE = 4 * CLASS_ZERO;
const STEP_SIZE = 8 * STATE_SIZE;
/** Stands for `failure` where the caller caused it. */
const CALLER_ERROR = RUN_STATES.length;
/** So many failures are looked at for those that callers did not cause. */
const MAX_LOOKED_AT = 1_000;

/** Figures of runs over time. */
export const runFigures = {
  /** Runs by step. 100,000 take 70 ms on SQLite, where grouping by each part of a class took 115. */
  ofSpan: heavyRead(async (session, span: RunSpan): Promise<SpanFigures> => {
    const { sql, db } = session;
    const { groups, sinceMs } = await countSlices(span, async (slice, limit) => {
      const { rows } = await sql<RunClass>`
        select packed, count(*) as count
        from (${runsOf(session, sql`${packedClass(session, span)} as packed`, span, slice, limit)}) as seen
        group by 1
      `.execute(db);
      return rows;
    });
    const steps = Array.from({ length: stepCount(span) }, () => new Tally());
    const total = new Tally();
    for (const { packed, count } of groups) {
      const { step, rest } = unpacked(packed, span);
      steps[step]!.add(rest, count);
      total.add(rest, count);
    }
    return { steps: steps.map((step) => step.figures()), total: total.figures(), sinceMs };
  }),

  /** Runs by app; apps without any are left out. */
  byApp: heavyRead(async (session, span: RunSpan): Promise<AppTraffic[]> => {
    const { sql, db } = session;
    const { groups } = await countSlices(span, async (slice, limit) => {
      const { rows } = await sql<ClassOfApp>`
        select app_number, packed, count(*) as count
        from (${runsOf(session, sql`r.app_number, ${packedClass(session, span)} as packed`, span, slice, limit)}) as seen
        group by 1, 2
      `.execute(db);
      return rows;
    });
    return Array.from(
      Map.groupBy(groups, ({ appNumber }) => appNumber),
      ([appNumber, ofApp]) => trafficOf(appNumber, ofApp, span),
    );
  }),

  /** The newest failures of the span that their callers did not cause. */
  lastFailures: heavyRead(async (session, span: FailureSpan): Promise<FailedRun[]> => {
    const { sql, db } = session;
    const { rows } = await sql<Omit<FailedRun, "id"> & { id: Uint8Array }>`
      select r.app_number, r.id, r.function_name, r.created_at, r.error_code,
        substr(r.error_message, 1, ${MAX_MESSAGE_CHARS}) as error_message
      from (
        select r.app_number, r.id from apps as a cross join runs as r
        where ${isIn(session, span, [span.fromMs, span.toMs])} and ${isInState(session, "failure", "r")}
        order by r.id desc limit ${MAX_LOOKED_AT}
      ) as newest
      join runs as r on r.app_number = newest.app_number and r.id = newest.id
      where not ${isCallers(session, "r")}
      order by r.id desc limit ${span.limit}
    `.execute(db);
    return rows.map((row) => ({ ...row, id: uuidText(row.id) }));
  }),

  /** When the async run that waits longest was accepted, in epoch milliseconds; null when none waits. */
  oldestQueuedAt: heavyRead(async (session, of: RunScope): Promise<number | null> => {
    const { sql, db } = session;
    const { rows } = await sql<{ oldestAt: number | null }>`
      select min((
        select r.created_at from runs as r
        where r.app_number = a.number and ${isDue(session, "r")}
        order by r.id limit 1
      )) as oldest_at
      from apps as a where ${isOfScope(session, of)}
    `.execute(db);
    return rows[0]?.oldestAt ?? null;
  }),
};

function stepCount({ fromMs, toMs, stepMs }: RunSpan): number {
  return Math.ceil((toMs - fromMs) / stepMs);
}

/** The step, which is the last one for a run whose id is a little ahead of it. */
function stepIn(span: RunSpan, step: number): number {
  return Math.max(0, Math.min(step, stepCount(span) - 1));
}

/** Adds classes up. */
class Tally {
  readonly #byState = { queued: 0, running: 0, success: 0, failure: 0, cancelled: 0 };
  readonly #spans = new SpanClasses();
  #callerErrors = 0;
  #cold = 0;

  /** Adds a packed class without its step. */
  add(packed: number, count: number): void {
    const code = Math.floor(packed / STATE_SIZE);
    const state = code === CALLER_ERROR ? "failure" : RUN_STATES[code]!;
    const spanClass = Math.floor((packed % STATE_SIZE) / 2) - CLASS_ZERO;
    this.#byState[state] += count;
    if (state === "success" || state === "failure") this.#spans.add(spanClass, count);
    if (code === CALLER_ERROR) this.#callerErrors += count;
    if (packed % 2 === 1) this.#cold += count;
  }

  figures(): RunFigures {
    return {
      byState: this.#byState,
      callerErrors: this.#callerErrors,
      cold: this.#cold,
      p50Ms: this.#spans.percentile(0.5),
      p95Ms: this.#spans.percentile(0.95),
      p99Ms: this.#spans.percentile(0.99),
    };
  }
}

function trafficOf(appNumber: number, groups: readonly RunClass[], span: RunSpan): AppTraffic {
  const runs = Array<number>(stepCount(span)).fill(0);
  const failures = Array<number>(stepCount(span)).fill(0);
  const total = new Tally();
  for (const { packed, count } of groups) {
    const { step, rest } = unpacked(packed, span);
    runs[step]! += count;
    if (Math.floor(rest / STATE_SIZE) === STATE_CODES.failure) failures[step]! += count;
    total.add(rest, count);
  }
  return { appNumber, runs, failures, total: total.figures() };
}

/** The step of a packed class, and the class without it. */
function unpacked(packed: number, span: RunSpan): { readonly step: number; readonly rest: number } {
  const step = Math.floor(packed / STEP_SIZE);
  return { step: stepIn(span, step), rest: packed - step * STEP_SIZE };
}

/** The runs of a slice, as columns; `cross join`, so that SQLite goes from app to app and reads only their spans. */
function runsOf(
  session: Session,
  columns: ReturnType<Session["sql"]>,
  span: RunSpan,
  slice: Slice,
  limit: number,
) {
  return session.sql`select ${columns} from apps as a cross join runs as r
    where ${isIn(session, span, slice)} limit ${limit}`;
}

/** Whether the app `a` is meant. */
function isOfScope({ sql }: Session, { projectId, appNumber }: RunScope) {
  return sql<boolean>`a.project_id = ${projectId} and a.deleted_at is null
    ${appNumber === null ? sql`` : sql`and a.number = ${appNumber}`}`;
}

/** Whether the run `r` of the app `a` is in the slice: ids begin with their time. */
function isIn(session: Session, scope: RunScope, [fromMs, toMs]: Slice) {
  return session.sql<boolean>`${isOfScope(session, scope)} and r.app_number = a.number and r.id >= ${firstIdAt(fromMs)} and r.id < ${firstIdAt(toMs)}`;
}

/** Whether a failure is its caller's mistake, not the app's. */
function isCallers({ sql }: Session, run: string) {
  return sql<boolean>`coalesce(${sql.ref(`${run}.statusCode`)} between 400 and 499, false)`;
}

function stepOf({ sql }: Session, { fromMs, stepMs }: RunSpan) {
  return sql<number>`cast((r.created_at - ${fromMs}) / ${stepMs} as integer)`;
}

/** Step, state, class of the response time and whether it was cold, from left to right. */
function packedClass(session: Session, span: RunSpan) {
  const { sql } = session;
  // What takes less than the least or more than the most counts as that; what has not ended has no class.
  const spanClass = sql`case when r.response_ms > ${MOST_MS} then ${CLASS_ZERO - 1}
    when r.response_ms > ${LEAST_MS} then cast(floor(ln(r.response_ms) / ${Math.log(CLASS_RATIO)}) as integer)
    else ${1 - CLASS_ZERO} end`;
  const state = sql`case when ${isInState(session, "failure", "r")} and ${isCallers(session, "r")} then ${sql.lit(CALLER_ERROR)} else r.state end`;
  return sql<number>`${stepOf(session, span)} * ${STEP_SIZE} + ${state} * ${STATE_SIZE}
    + (${spanClass} + ${CLASS_ZERO}) * 2 + case when r.replica_started_at >= r.created_at then 1 else 0 end`;
}

/** How many wait, and since when the oldest does, in epoch milliseconds. */
type Waiting = { readonly count: number; readonly oldestAt: number | null };

/** As a run's priority is above, at or below 0. */
export const QUEUE_PRIORITIES = ["high", "normal", "low"] as const;

/** The runs in an app's queue, counted up to `MAX_COUNTED`, in all and by priority. */
export type QueuedRuns = Waiting & { readonly appNumber: number } & Readonly<
    Record<(typeof QUEUE_PRIORITIES)[number], number>
  >;

const MAX_COUNTED = 100_000;
/** Three counts in one number that JavaScript has exactly: 100,000 × `COUNT_SIZE` ** 2 is below 2 ** 53. */
const COUNT_SIZE = 2 ** 18;

/** A queued run as a count of 1, in the place of its priority. No tag can look like a member: its quotes are escaped. */
function countedByPriority({ sql }: Session) {
  return sql<number>`case when r.terms is null or r.terms like '%"priority":0,%' then 1
    when r.terms like '%"priority":-%' then ${sql.lit(COUNT_SIZE)} else ${sql.lit(COUNT_SIZE ** 2)} end`;
}

/** Figures of the whole installation, for its metrics. */
export const figures = {
  /** The async runs that wait, by app; apps without any are left out. */
  queuedRuns: heavyRead(async (session): Promise<QueuedRuns[]> => {
    const { db, sql } = session;
    // Counting 100,000 rows takes 50 ms, and a larger count is not needed exactly.
    const { rows } = await sql<Pick<QueuedRuns, "appNumber" | "oldestAt"> & { readonly counts: number }>`
      ${appsFound(session, "runs", isDue(session))}
      select found.app_number, (
        select cast(sum(weight) as bigint) from (
          select ${countedByPriority(session)} as weight from runs as r
          where r.app_number = found.app_number and ${isDue(session, "r")}
          limit ${MAX_COUNTED}
        ) as counted
      ) as counts, (
        select r.created_at from runs as r
        where r.app_number = found.app_number and ${isDue(session, "r")}
        order by r.id limit 1
      ) as oldest_at
      from found where found.app_number is not null
    `.execute(db);
    return rows.map(({ counts, ...queued }) => {
      const normal = counts % COUNT_SIZE;
      const low = Math.floor(counts / COUNT_SIZE) % COUNT_SIZE;
      const high = Math.floor(counts / COUNT_SIZE ** 2);
      return { ...queued, count: normal + low + high, high, normal, low };
    });
  }),

  /** The deliveries that have not ended. */
  pendingDeliveries: heavyRead(async ({ sql, db }): Promise<Waiting> => {
    const { rows } = await sql<Waiting>`
      select count(*) as count, min(created_at) as oldest_at from deliveries where state = ${sql.lit(PENDING)}
    `.execute(db);
    return rows[0]!;
  }),
};
