import type { RawBuilder } from "kysely";
import type { RunState } from "../../model/run.ts";
import type { QueueConfig, Rate } from "../../model/app-config.ts";
import {
  endOfAll,
  hasKeyLimits,
  longestWait,
  nextRoomAt,
  roomIn,
  type Starts,
  withStarts,
} from "../../model/queue-limits.ts";
import { heavyRead, read, type Session, write } from "../operation.ts";
import { all, appsFound, firstOf } from "../queries.ts";
import { PARKED } from "../schema/0006-queue-limits.ts";
import {
  codeBefore,
  isDue,
  isInState,
  isUnfinished,
  nameOfState,
  placeInQueue,
  STATE_CODES,
} from "./run-columns.ts";
import { isDueIn, type PickedRun } from "./turns.ts";

// What an app allows its runs, and those of a concurrency key. Every claim keeps to it, whatever else happens. A run that comes
// while its key has enough is parked until its key is admitted; should that be lost in a crash, the next look at all keys
// (`keyLines.stuck`) makes good for it.

/** What is claimed keeps to this; times are of the claimer's clock. */
type LimitQuery = {
  readonly appNumber: number;
  readonly queue?: QueueConfig | undefined;
  readonly now: number;
};

/** A concurrency key of an app. */
export type AppKey = { readonly appNumber: number; readonly key: string };

type Admission = AppKey & {
  /** What the app allows now. */
  readonly queue: QueueConfig | undefined;
  readonly now: number;
};

/** `hasMore`: more runs of the key may begin. `nextAt`: a delayed one may, then. */
type Admitted = AppKey & {
  readonly count: number;
  readonly hasMore: boolean;
  readonly nextAt: number | null;
};

/** Stands for the app itself among its keys. */
const WHOLE_APP = "";
/** Runs of a key that are admitted together, if nothing limits them. */
const MOST_ADMITTED = 1_000;
/** Twice the highest limit: with more that wait, none is admitted, however many are running. */
const MOST_COUNTED = 20_000;

/** How many runs of the app may begin now; and when more may, if that is known. */
export async function roomOfApp(session: Session, query: LimitQuery) {
  const { appNumber, queue, now } = query;
  const none = { count: Number.POSITIVE_INFINITY, nextAt: null };
  if (!queue) return none;
  const { concurrencyLimit, rateLimit } = queue;
  const free = concurrencyLimit === null ? none.count : concurrencyLimit - (await runningOf(session, query));
  if (rateLimit === null) return { ...none, count: Math.max(0, free) };
  const starts = await startsOf(session, { appNumber, key: WHOLE_APP });
  const room = roomIn(starts, rateLimit, now);
  // The end of a run makes room too, unless there is none for its rate.
  return {
    count: Math.max(0, Math.min(free, room)),
    nextAt: room > 0 ? null : nextRoomAt(starts, rateLimit, now),
  };
}

/** Splits runs that are about to be claimed: those that their keys allow, and those that they do not, which are parked. */
export async function keepToKeys(session: Session, query: LimitQuery, picks: readonly PickedRun[]) {
  const { appNumber, queue, now } = query;
  const all = { kept: picks, parkedKeys: [] as string[] };
  if (!queue || !hasKeyLimits(queue)) return all;
  const byKey = Map.groupBy(picks, ({ concurrencyKey }) => concurrencyKey);
  byKey.delete(null);
  const parked = new Set<PickedRun>();
  for (const [key, ofKey] of byKey as Map<string, PickedRun[]>) {
    const running = await runningOf(session, { appNumber }, key);
    const free = (queue.concurrencyKeyLimit ?? Number.POSITIVE_INFINITY) - running;
    const rate = queue.concurrencyKeyRateLimit;
    const room = rate ? roomIn(await startsOf(session, { appNumber, key }), rate, now) : free;
    for (const pick of ofKey.slice(Math.max(0, Math.min(free, room)))) parked.add(pick);
  }
  if (parked.size === 0) return all;
  const { db } = session;
  const ids = [...parked].map(({ id }) => id);
  await db
    .updateTable("runs")
    .set({ dueAt: PARKED })
    .where("appNumber", "=", appNumber)
    .where("id", "in", ids)
    .where("state", "=", codeBefore("claim"))
    .execute();
  const parkedKeys = [...new Set([...parked].flatMap(({ concurrencyKey }) => concurrencyKey ?? []))];
  return { kept: picks.filter((pick) => !parked.has(pick)), parkedKeys };
}

/** Counts runs that begin; returns the keys of which another run may begin later. */
export async function countStarts(
  session: Session,
  { appNumber, queue, now }: LimitQuery,
  begun: readonly { readonly concurrencyKey: string | null }[],
): Promise<string[]> {
  if (!queue || begun.length === 0) return [];
  const { rateLimit, concurrencyKeyRateLimit: keyRate } = queue;
  if (rateLimit) await addStarts(session, { appNumber, key: WHOLE_APP }, rateLimit, now, begun.length);
  if (!keyRate) return [];
  const byKey = Map.groupBy(begun, ({ concurrencyKey }) => concurrencyKey);
  byKey.delete(null);
  const keys = byKey as Map<string, unknown[]>;
  for (const [key, ofKey] of keys) await addStarts(session, { appNumber, key }, keyRate, now, ofKey.length);
  return [...keys.keys()];
}

/** The runs of concurrency keys. */
export const keyLines = {
  /** Lets as many parked runs of each key wait for their turn as may begin now; and one at the time when the next may. */
  admit: write(async (session, admissions: readonly Admission[]): Promise<Admitted[]> => {
    const admitted: Admitted[] = [];
    for (const admission of admissions) admitted.push(await admitKey(session, admission));
    return admitted;
  }),

  /** The apps that have unfinished runs with keys. */
  apps: read(async (session): Promise<number[]> => {
    const { sql, db } = session;
    const { rows } = await sql<{ appNumber: number }>`
      ${appsFound(session, "runs", isKeyed(session))}
      select app_number from found where app_number is not null
    `.execute(db);
    return rows.map(({ appNumber }) => appNumber);
  }),

  /**
   * Of the next keys of an app's unfinished runs after one, those with parked runs that nothing will admit; and the last of the
   * keys, null at the end. Goes from key to key. A run of the key that is due or running admits the next one at its end, and
   * one that is delayed for the rate when it begins; one that its caller has delayed may do so in a month only. If the app
   * limits keys no more, none of them does.
   */
  stuck: heavyRead(async (session, query: KeysQuery): Promise<StuckKeys> => {
    const { appNumber, after, limit, queue, now } = query;
    const { sql, db } = session;
    const key = sql`runs.concurrency_key`;
    const ofApp = sql`runs.app_number = ${appNumber} and ${isKeyed(session)}`;
    const ofKey = sql`${ofApp} and ${key} = found.key`;
    const rate = queue?.concurrencyKeyRateLimit ?? null;
    const isSoon = sql`exists (
      select 1 from runs where ${ofKey} and ${isInState(session, "queued")}
        and runs.due_at <= ${now + (rate ? longestWait(rate) : 0)}
    )`;
    const isMoving = sql`(
      exists (select 1 from runs where ${ofKey} and ${isInState(session, "running")})
      or exists (select 1 from runs where ${ofKey} and ${isDue(session)}) or ${isSoon}
    )`;
    const isLeft = hasKeyLimits(queue) ? sql`not ${isMoving}` : sql`true`;
    const ofParked = sql`runs.app_number = ${appNumber} and ${key} = found.key and ${isParked(session)}`;
    const { rows } = await sql<{ key: string; nth: number; isStuck: number | boolean }>`
      with recursive found (key, nth) as (
        select (select ${key} from runs where ${ofApp} and ${key} > ${after} order by ${key} limit 1), 1
        union all
        select (select ${key} from runs where ${ofApp} and ${key} > found.key order by ${key} limit 1), nth + 1
        from found where found.key is not null and nth < ${limit}
      )
      select key, nth, (exists (select 1 from runs where ${ofParked}) and ${isLeft}) as is_stuck
      from found where key is not null
    `.execute(db);
    rows.sort((a, b) => a.nth - b.nth);
    return {
      keys: rows.flatMap((row) => (row.isStuck ? row.key : [])),
      next: rows.length === limit ? (rows.at(-1)?.key ?? null) : null,
    };
  }),

  /** How many runs of an app wait for their turn, or for their key's; counted up to so many. */
  waiting: heavyRead(async (session, { appNumber, most }: WaitingQuery): Promise<number> => {
    const { sql, db } = session;
    const { rows } = await sql<{ due: number; parked: number }>`
      select
        (select count(*) from (select 1 from runs where ${isDueIn(session, appNumber)} limit ${most}) as a) as due,
        (select count(*) from (
          select 1 from runs where runs.app_number = ${appNumber} and ${isParked(session)} limit ${most}
        ) as b) as parked
    `.execute(db);
    const { due, parked } = rows[0]!;
    return due + parked;
  }),

  /** Removes what is known of starts that do not count any more. */
  removeStarts: write(async (session, { now, limit }: RemoveQuery): Promise<number> => {
    const { sql, db } = session;
    const { numAffectedRows } = await sql`
      delete from start_rates where (app_number, key) in (
        select app_number, key from start_rates where ends_at <= ${now} order by ends_at limit ${limit}
      )
    `.execute(db);
    return Number(numAffectedRows);
  }),
};

type KeysQuery = LimitQuery & { readonly after: string; readonly limit: number };
type StuckKeys = { readonly keys: readonly string[]; readonly next: string | null };
type WaitingQuery = { readonly appNumber: number; readonly most: number };
type RemoveQuery = { readonly now: number; readonly limit: number };

async function admitKey(session: Session, { queue, now, ...appKey }: Admission): Promise<Admitted> {
  const { concurrencyKeyLimit: limit = null, concurrencyKeyRateLimit: rate = null } = queue ?? {};
  const { running, due } = await countOf(session, appKey);
  const free = limit === null ? MOST_ADMITTED : limit - running - due;
  const starts = rate ? await startsOf(session, appKey) : [];
  const room = rate ? roomIn(starts, rate, now) - due : MOST_ADMITTED;
  const wanted = Math.max(0, Math.min(free, room, MOST_ADMITTED));
  const count = wanted > 0 ? await unpark(session, appKey, wanted, null) : 0;
  const result = { ...appKey, count, hasMore: count === MOST_ADMITTED, nextAt: null };
  // Where the rate alone is in the way, one run of the key is delayed until it is not: that it is due then wakes the key.
  if (!rate || free <= count || room > count || due + count > 0) return result;
  const nextAt = nextRoomAt(starts, rate, now);
  if (await isAwaited(session, appKey, nextAt)) return result;
  return (await unpark(session, appKey, 1, nextAt)) > 0 ? { ...result, nextAt } : result;
}

/** Lets the first parked runs of a key begin then, or now; returns how many. */
async function unpark(session: Session, { appNumber, key }: AppKey, limit: number, dueAt: number | null) {
  const { sql, db } = session;
  // Not within the update: Postgres may look for them more than once, and skips those that it has locked before.
  const { rows } = await sql<{ id: Uint8Array }>`
    select runs.id from runs
    where runs.app_number = ${appNumber} and runs.concurrency_key = ${key} and ${isParked(session)}
    order by ${placeInQueue(session)} limit ${limit} ${session.skipLocked("runs")}
  `.execute(db);
  if (rows.length > 0)
    await sql`
      update runs set due_at = ${dueAt}
      where app_number = ${appNumber} and id in (${sql.join(rows.map(({ id }) => id))})
    `.execute(db);
  return rows.length;
}

/** Whether a run of the key may begin by then. */
async function isAwaited(session: Session, { appNumber, key }: AppKey, by: number): Promise<boolean> {
  const { sql, db } = session;
  const { rows } = await sql`
    select 1 from runs where runs.app_number = ${appNumber} and runs.concurrency_key = ${key}
      and ${isInState(session, "queued")} and ${isKeyed(session)} and runs.due_at <= ${by} limit 1
  `.execute(db);
  return rows.length > 0;
}

/** How many async runs of the app, or of one key of it, are running. */
async function runningOf(session: Session, { appNumber }: Pick<LimitQuery, "appNumber">, key?: string) {
  const { sql, db } = session;
  const isOfKey = key === undefined ? sql`true` : sql`runs.concurrency_key = ${key} and ${isKeyed(session)}`;
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from runs
    where runs.app_number = ${appNumber} and ${isOfKey} and ${isInState(session, "running")}
      and runs.is_async = 1
  `.execute(db);
  return rows[0]!.count;
}

/** How many runs of a key are running, and how many wait for their turn. */
async function countOf(session: Session, { appNumber, key }: AppKey) {
  const { sql, db } = session;
  // Each state by itself, so that the parked runs are passed over: there may be a million. As a column, since a Postgres without
  // statistics might search the index of all that are due for the key.
  const { rows } = await sql<{ state: number; count: number }>`
    with states (state) as (values (${codeLit(session, "queued")}), (${codeLit(session, "running")}))
    select state, (
      select count(*) from (
        select 1 from runs where runs.app_number = ${appNumber} and runs.concurrency_key = ${key}
          and ${isKeyed(session)} and runs.state = states.state and runs.due_at is null limit ${MOST_COUNTED}
      ) as counted
    ) as count from states
  `.execute(db);
  const of = (state: RunState): number => rows.find((row) => nameOfState(row.state) === state)?.count ?? 0;
  return { running: of("running"), due: of("queued") };
}

function codeLit({ sql }: Session, state: RunState): RawBuilder<unknown> {
  return sql.lit(STATE_CODES[state]);
}

/** The condition of the index of runs with keys. */
function isKeyed(session: Session): RawBuilder<boolean> {
  return session.sql<boolean>`runs.concurrency_key is not null and ${isUnfinished(session)}`;
}

export function isParked(session: Session): RawBuilder<boolean> {
  const { sql } = session;
  return sql<boolean>`${isKeyed(session)} and ${isInState(session, "queued")} and runs.due_at = ${sql.lit(PARKED)}`;
}

async function startsOf({ db }: Session, key: AppKey): Promise<Starts> {
  const row = await firstOf(db.selectFrom("startRates").select("starts").where(all(key)));
  return row ? (JSON.parse(row.starts) as Starts) : [];
}

async function addStarts(
  session: Session,
  key: AppKey,
  rate: Rate,
  now: number,
  count: number,
): Promise<void> {
  const starts = withStarts(await startsOf(session, key), rate, now, count);
  const row = { starts: JSON.stringify(starts), endsAt: endOfAll(starts, rate) };
  await session.db
    .insertInto("startRates")
    .values({ ...key, ...row })
    .onConflict((conflict) => conflict.columns(["appNumber", "key"]).doUpdateSet(row))
    .execute();
}
