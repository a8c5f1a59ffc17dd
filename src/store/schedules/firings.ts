import type { RawBuilder } from "kysely";
import { uuidBytes, uuidText } from "../../kit/ids.ts";
import { makeRun, NOT_BEGUN, type RunKey, type RunState } from "../../model/run.ts";
import { FIRING_MOVES, FIRING_STATES } from "../../model/schedule.ts";
import type { RunTrace } from "../../model/trace.ts";
import type { FiringState, Schedule, ScheduleSpec } from "../../model/schedule.ts";
import { packColumns } from "../column-batch.ts";
import { heavyRead, read, type Row, type Session, write } from "../operation.ts";
import { chunks, doNothing, isDone } from "../queries.ts";
import { acceptedRows, type AcceptedRun, packAccepted } from "../runs/accepted-runs.ts";
import { isInState, isOver, isUnfinished, nameOfState } from "../runs/run-columns.ts";
import { type NextFiring, scheduleFromRow } from "./schedules.ts";

const CODES = Object.fromEntries(FIRING_STATES.map((state, code) => [state, code])) as Record<
  FiringState,
  number
>;

/** How many times of a schedule may wait for its runs to end. */
const MAX_WAITING = 100;

/** Of the firings that had no run, how many are kept of each schedule. */
const KEPT_SKIPPED = 100;

/** A time that a schedule stands for, and the id and trace of its run if it gets one. */
type FiringTime = { readonly at: number; readonly runId: string; readonly trace?: RunTrace | null };

/** A schedule whose time has come. */
export type DueSchedule = NextFiring & {
  readonly number: number;
  /** When it had changed last when it was read: since then, its times may have become others. */
  readonly updatedAt: number;
  /** The next time that it stood for when it was read: another node may have fired it since. */
  readonly expectedAt: number;
  /** From the first to the last; none if all were missed. */
  readonly times: readonly FiringTime[];
};

type FireQuery = { readonly due: readonly DueSchedule[]; readonly now: number };

/** The apps that have new runs, and how many runs. */
type Started = { readonly appNumbers: readonly number[]; readonly runs: number };

/** The same, and how many schedules were moved on. */
type Fired = Started & { readonly moved: number };

/** When the next schedule fires, null if none will; and whether firings wait, or have runs that are to be cancelled. */
type Outlook = { readonly nextAt: number | null; readonly hasOpen: boolean };

type FiringKey = { readonly schedule: number; readonly at: number };
type WaitingFiring = FiringKey & FiringTime;
type ManualFiring = WaitingFiring & { readonly now: number };

/** A firing, with the state of its run; null if it has none, or none that is still stored. */
export type Firing = FiringKey & {
  readonly isManual: boolean;
  readonly state: FiringState;
  readonly runId: string | null;
  readonly runState: RunState | null;
};

type LastQuery = { readonly schedules: readonly number[]; readonly limit: number };
type SupersededQuery = { readonly owner: string; readonly limit: number };
/** A firing whose run is to be cancelled; null if that run has ended. */
type Superseded = FiringKey & { readonly run: RunKey | null };
type PruneStep = { readonly after: number; readonly limit: number };

/** The times for which schedules have fired: each at most once, by the table's key. */
export const firings = {
  /** What there is to do, and when. */
  outlook: read(async (session): Promise<Outlook> => {
    const { sql, db } = session;
    const { rows } = await sql<{ nextAt: number | null; waiting: number | null; superseded: number | null }>`
      select
        (select fire_at from schedules where fire_at is not null order by fire_at limit 1) as next_at,
        (select 1 from firings as f where ${isFiring(session, "waiting", "f")} limit 1) as waiting,
        (select 1 from firings as f where ${isFiring(session, "superseded", "f")} limit 1) as superseded
    `.execute(db);
    const { nextAt, ...open } = rows[0]!;
    return { nextAt, hasOpen: Object.values(open).some((found) => found !== null) };
  }),

  /** The schedules whose time has come, the earliest first. */
  due: read(async ({ db }, query: { readonly now: number; readonly limit: number }): Promise<Schedule[]> => {
    const due = db.selectFrom("schedules").selectAll("schedules").where("fireAt", "is not", null);
    // A service of the release before may have deleted their app and left them.
    const living = due
      .innerJoin("apps", "apps.number", "schedules.appNumber")
      .where("apps.deletedAt", "is", null);
    const rows = await living.where("fireAt", "<=", query.now).orderBy("fireAt").limit(query.limit).execute();
    return rows.map(scheduleFromRow);
  }),

  /** Fires schedules for their times, and moves them on; leaves out those that another node has fired or is firing. */
  fire: write(async (session, { due, now }: FireQuery): Promise<Fired> => {
    const locked = await lockSchedules(
      session,
      due.map(({ number }) => number),
    );
    const ours = due.flatMap((one) => {
      const schedule = locked.get(one.number);
      const isAsRead = schedule?.nextAt === one.expectedAt && schedule.updatedAt === one.updatedAt;
      return isAsRead && !schedule.isPaused ? [{ ...one, schedule }] : [];
    });
    if (ours.length === 0) return { ...NOTHING, moved: 0 };
    await session.updateColumns("schedules", packColumns(ours, NEXT_SOURCES), { match: ["number"] });
    const before = await openFirings(session, ours);
    const known = await knownTimes(session, ours);
    const rows: NewFiring[] = [];
    for (const { schedule, times } of ours) {
      const isNew = ({ at }: FiringTime) => !known.has(`${schedule.number} ${at}`);
      rows.push(...fireOne(schedule, times.filter(isNew), before.get(schedule.number) ?? NONE_OPEN));
    }
    await setStates(
      session,
      "superseded",
      rows.flatMap(({ supersedes }) => supersedes),
    );
    await setStates(
      session,
      "skipped",
      rows.flatMap(({ drops }) => drops),
    );
    return { ...(await insertFirings(session, rows, now)), moved: ours.length };
  }),

  /** Fires a schedule now, whatever its earlier runs do; the run's id is the given one. Null if its app cannot run it. */
  fireNow: write(
    async (session, { schedule: number, at, runId, trace, now }: ManualFiring): Promise<Started | null> => {
      const schedule = (await schedulesOf(session, [number], session.sql``)).get(number);
      if (!schedule?.versionId) return null;
      for (let free = at; ; free += 1) {
        // A whole second may be a time that the schedule stands for.
        if (free % 1_000 === 0) continue;
        const firing = { ...started(schedule, { at: free, runId }), isManual: true };
        const made = session.db.insertInto("firings").values(rowOf(firing)).onConflict(doNothing);
        if (await isDone(made))
          return await insertRuns(session, [acceptedRun(schedule, { runId, trace }, now)]);
      }
    },
  ),

  /** The first of the times of each schedule that wait, where no run is in the way any more. */
  startable: heavyRead(async (session, limit: number): Promise<FiringKey[]> => {
    const { sql, db } = session;
    const { rows } = await sql<FiringKey>`
      select f.schedule, min(f.at) as at from firings as f
      where ${isFiring(session, "waiting", "f")} and not exists (
        select 1 from firings as o join runs as r on r.app_number = o.app_number and r.id = o.run_id
        where ${isFiring(session, "started", "o")} and o.schedule = f.schedule and ${isUnfinished(session, "r")}
      )
      group by f.schedule order by 2 limit ${limit}
    `.execute(db);
    return rows;
  }),

  /** Starts times that waited, if they still wait and no run is in the way. */
  start: write(
    async (session, query: { readonly waiting: readonly WaitingFiring[]; readonly now: number }) => {
      const { waiting, now } = query;
      const numbers = waiting.map(({ schedule }) => schedule);
      const locked = await lockSchedules(session, numbers);
      const open = await openFirings(
        session,
        Array.from(locked.values(), (schedule) => ({ schedule, times: [] })),
      );
      const runs: AcceptedRun[] = [];
      for (const { schedule: number, at, runId, trace } of waiting) {
        const schedule = locked.get(number);
        const { running, waits } = open.get(number) ?? NONE_OPEN;
        if (!schedule || running.length > 0 || waits[0]?.at !== at) continue;
        if (!schedule.versionId) {
          await setStates(session, "skipped", [{ schedule: number, at }]);
          continue;
        }
        const change = session.db
          .updateTable("firings")
          .set({ state: CODES.started, runId: uuidBytes(runId) });
        await change.where("schedule", "=", number).where("at", "=", at).execute();
        runs.push(acceptedRun(schedule, { runId, trace }, now));
      }
      return await insertRuns(session, runs);
    },
  ),

  /** Firings whose runs are to be cancelled, and are queued or executed by that node; or have ended. */
  superseded: read(async (session, { owner, limit }: SupersededQuery): Promise<Superseded[]> => {
    const { sql, db } = session;
    const { rows } = await sql<FiringKey & { id: Uint8Array | null; appNumber: number }>`
      select f.schedule, f.at, f.app_number, case when ${isUnfinished(session, "r")} then r.id end as id
      from firings as f left join runs as r on r.app_number = f.app_number and r.id = f.run_id
      where ${isFiring(session, "superseded", "f")}
        and (r.id is null or ${isOver(session, "r")} or ${isInState(session, "queued", "r")} or r.owner = ${owner})
      order by f.schedule, f.at limit ${limit}
    `.execute(db);
    return rows.map(({ schedule, at, appNumber, id }) => ({
      schedule,
      at,
      run: id && { appNumber, id: uuidText(id) },
    }));
  }),

  /** Notes that the runs of superseded firings have ended. */
  end: write(async (session, keys: readonly FiringKey[]): Promise<void> => {
    await setStates(session, "ended", keys);
  }),

  /** The last firings of schedules, the latest first. */
  last: read(async (session, { schedules, limit }: LastQuery): Promise<Firing[]> => {
    if (schedules.length === 0) return [];
    const { sql, db } = session;
    const { rows } = await sql<ListedRow>`
      select f.schedule, f.at, f.is_manual, f.state, f.run_id, r.state as run_state
      from schedules as s cross join firings as f left join runs as r on r.app_number = f.app_number and r.id = f.run_id
      where s.number in (${sql.join(schedules)}) and f.schedule = s.number and f.at >= coalesce((
        select k.at from firings as k where k.schedule = s.number order by k.at desc limit 1 offset ${limit - 1}
      ), 0)
      order by f.schedule, f.at desc
    `.execute(db);
    return rows.map(({ schedule, at, isManual, state, runId, runState }) => ({
      schedule,
      at,
      isManual: isManual === 1,
      state: stateOf(state),
      runId: runId && uuidText(runId),
      runState: runState === null ? null : nameOfState(runState),
    }));
  }),

  /** Removes old firings that had no run, of some schedules after one; returns the last of these, null at the end. */
  prune: write(async (session, { after, limit }: PruneStep): Promise<number | null> => {
    const { sql, db } = session;
    // By an index of their own: a schedule may have millions that had runs.
    const isSkipped = sql<boolean>`state = ${sql.lit(CODES.skipped)}`;
    const { rows } = await sql<{ number: number; cutoff: number | null }>`
      select s.number, (
        select f.at from firings as f where f.schedule = s.number and ${isSkipped}
        order by f.at desc limit 1 offset ${KEPT_SKIPPED}
      ) as cutoff
      from schedules as s where s.number > ${after} order by s.number limit ${limit}
    `.execute(db);
    for (const { number, cutoff } of rows) {
      if (cutoff === null) continue;
      await sql`
        delete from firings where schedule = ${number} and at <= ${cutoff} and ${isSkipped}
      `.execute(db);
    }
    return rows.length === limit ? rows.at(-1)!.number : null;
  }),
};

const NOTHING: Started = { appNumbers: [], runs: 0 };

/** States are literals, and the condition of the index is repeated: SQLite uses it only then. */
function isFiring({ sql }: Pick<Session, "sql">, state: FiringState, firing: string) {
  return sql<boolean>`${sql.ref(`${firing}.state`)} = ${sql.lit(CODES[state])} and ${isOpen({ sql }, firing)}`;
}

function isOpen({ sql }: Pick<Session, "sql">, firing: string) {
  const { waiting, started: running, superseded } = CODES;
  return sql<boolean>`${sql.ref(`${firing}.state`)} in (${sql.lit(waiting)}, ${sql.lit(running)}, ${sql.lit(superseded)})`;
}

type ListedRow = Pick<Row<"firings">, "schedule" | "at" | "isManual" | "state" | "runId"> & {
  readonly runState: number | null;
};

function stateOf(code: number): FiringState {
  const state = FIRING_STATES[code];
  if (!state) throw new RangeError(`a stored firing has the unknown state ${code}`);
  return state;
}

/** A schedule that no other transaction changes until this one has ended, and the version that its app serves. */
type LockedSchedule = Schedule & { readonly versionId: string | null };

/** Those of living apps, by number; without those that another transaction has locked. */
async function lockSchedules(session: Session, numbers: readonly number[]) {
  return await schedulesOf(session, numbers, session.skipLocked("schedules"));
}

async function schedulesOf({ sql, db }: Session, numbers: readonly number[], lock: RawBuilder<unknown>) {
  if (numbers.length === 0) return new Map<number, LockedSchedule>();
  const { rows } = await sql<Row<"schedules"> & { versionId: Uint8Array | null }>`
    select schedules.*, a.current_version_id as version_id
    from schedules join apps as a on a.number = schedules.app_number
    where schedules.number in (${sql.join(numbers)}) and a.deleted_at is null
    order by schedules.number ${lock}
  `.execute(db);
  return new Map(
    rows.map(({ versionId, ...row }): [number, LockedSchedule] => [
      row.number,
      { ...scheduleFromRow(row), versionId: versionId && uuidText(versionId) },
    ]),
  );
}

const NEXT_SOURCES = {
  numbers: {
    number: ({ number }: DueSchedule) => number,
    nextAt: ({ nextAt }: DueSchedule) => nextAt,
    fireAt: ({ fireAt }: DueSchedule) => fireAt,
  },
  texts: {},
  uuids: {},
};

/** The firings of a schedule that are not over: those whose run has not ended, and those that wait, the first one first. */
type OpenFirings = { readonly running: readonly FiringKey[]; readonly waits: readonly FiringKey[] };
const NONE_OPEN: OpenFirings = { running: [], waits: [] };

type Timed = { readonly schedule: Pick<Schedule, "number">; readonly times: readonly FiringTime[] };

/** By the schedule's number. Notes which runs have ended. */
async function openFirings(session: Session, of: readonly Timed[]): Promise<Map<number, OpenFirings>> {
  const { sql, db } = session;
  if (of.length === 0) return new Map();
  const numbers = of.map(({ schedule }) => schedule.number);
  const { rows } = await sql<FiringKey & { state: number; isOver: unknown }>`
    select f.schedule, f.at, f.state, case when r.id is null or ${isOver(session, "r")} then 1 else 0 end as is_over
    from firings as f left join runs as r on r.app_number = f.app_number and r.id = f.run_id
    where ${isOpen(session, "f")} and f.schedule in (${sql.join(numbers)})
    order by f.schedule, f.at
  `.execute(db);
  const isWaiting = ({ state }: (typeof rows)[number]) => state === CODES.waiting;
  const hasEnded = (row: (typeof rows)[number]) => !isWaiting(row) && row.isOver === 1;
  await setStates(session, "ended", rows.filter(hasEnded));
  return new Map(
    Array.from(
      Map.groupBy(rows, ({ schedule }) => schedule),
      ([number, open]) => [
        number,
        {
          running: open.filter((row) => row.state === CODES.started && !hasEnded(row)),
          waits: open.filter(isWaiting),
        },
      ],
    ),
  );
}

/** `schedule at` of the times for which there is a firing, among those or later ones. */
async function knownTimes({ sql, db }: Session, of: readonly Timed[]): Promise<Set<string>> {
  const timed = of.filter(({ times }) => times.length > 0);
  if (timed.length === 0) return new Set();
  const wanted = timed.flatMap(({ schedule, times }) =>
    times.map(({ at }) => keyValues({ sql }, { schedule: schedule.number, at })),
  );
  const known = new Set<string>();
  for (const some of chunks(wanted)) {
    const { rows } = await sql<FiringKey>`
      select schedule, at from firings where (schedule, at) in (values ${sql.join(some)})
    `.execute(db);
    for (const { schedule, at } of rows) known.add(`${schedule} ${at}`);
  }
  return known;
}

type NewFiring = FiringKey & {
  readonly from: LockedSchedule;
  readonly state: FiringState;
  /** Null if it has no run. */
  readonly runId: string | null;
  readonly trace?: RunTrace | null | undefined;
  readonly isManual: boolean;
  readonly supersedes: readonly FiringKey[];
  readonly drops: readonly FiringKey[];
};

function unstarted(from: LockedSchedule, at: number, state: "waiting" | "skipped"): NewFiring {
  const nothing = { runId: null, isManual: false, supersedes: [], drops: [] };
  return { from, schedule: from.number, at, state, ...nothing };
}

function started(from: LockedSchedule, { at, runId, trace }: FiringTime): NewFiring {
  return { ...unstarted(from, at, "skipped"), state: "started", runId, trace };
}

/** What becomes of the times of a schedule. Where only one run may start, it is that of the last time. */
function fireOne(
  from: LockedSchedule,
  times: readonly FiringTime[],
  { running, waits }: OpenFirings,
): NewFiring[] {
  const skip = (those: readonly FiringTime[]) => those.map(({ at }) => unstarted(from, at, "skipped"));
  const last = times.at(-1);
  if (!last) return [];
  if (from.versionId === null) return skip(times);
  const isFree = running.length === 0 && waits.length === 0;
  if (from.spec.overlap === "queue") {
    const first = isFree ? times.slice(0, 1) : [];
    const rest = times.slice(first.length);
    const room = Math.max(0, MAX_WAITING - waits.length);
    return [
      ...first.map((time) => started(from, time)),
      ...rest.slice(0, room).map(({ at }) => unstarted(from, at, "waiting")),
      ...skip(rest.slice(room)),
    ];
  }
  if (from.spec.overlap === "skip" && !isFree) return skip(times);
  return [...skip(times.slice(0, -1)), { ...started(from, last), supersedes: running, drops: waits }];
}

/** A key in a list of values, with types: Postgres would take it for text. */
function keyValues({ sql }: Pick<Session, "sql">, { schedule, at }: FiringKey): RawBuilder<unknown> {
  return sql`(cast(${schedule} as integer), cast(${at} as bigint))`;
}

/** Moves firings to a state, those of them that may be moved to it. */
async function setStates(session: Session, to: FiringState, keys: readonly FiringKey[]): Promise<void> {
  if (keys.length === 0) return;
  const { sql, db } = session;
  const from = Object.values(FIRING_MOVES).flatMap((move) => (move.to === to ? [...move.from] : []));
  for (const some of chunks(keys)) {
    const wanted = some.map((key) => keyValues(session, key));
    await sql`
      update firings set state = ${sql.lit(CODES[to])}
      where (schedule, at) in (values ${sql.join(wanted)})
        and state in (${sql.join(from.map((state) => sql.lit(CODES[state])))})
    `.execute(db);
  }
}

function rowOf({ from, schedule, at, state, runId, isManual }: NewFiring): Row<"firings"> {
  return {
    schedule,
    at,
    appNumber: from.appNumber,
    name: from.name,
    isManual: isManual ? 1 : 0,
    state: CODES[state],
    runId: runId === null ? null : uuidBytes(runId),
  };
}

async function insertFirings(session: Session, rows: readonly NewFiring[], now: number): Promise<Started> {
  for (const some of chunks(rows)) {
    await session.db.insertInto("firings").values(some.map(rowOf)).execute();
  }
  const runs = rows.flatMap(({ from, runId, trace }) =>
    runId === null ? [] : acceptedRun(from, { runId, trace }, now),
  );
  return await insertRuns(session, runs);
}

async function insertRuns(session: Session, runs: readonly AcceptedRun[]): Promise<Started> {
  if (runs.length === 0) return NOTHING;
  await session.insertCounted(acceptedRows(packAccepted(runs)));
  const appNumbers = new Set(runs.map(({ run }) => run.appNumber));
  return { appNumbers: [...appNumbers], runs: runs.length };
}

/** A queued run of a schedule: any node may claim it, as any async run. */
function acceptedRun(
  { appNumber, versionId, spec }: LockedSchedule,
  { runId: id, trace = null }: { readonly runId: string; readonly trace?: RunTrace | null | undefined },
  now: number,
): AcceptedRun {
  if (versionId === null) throw new Error("an app without a version cannot have runs");
  const target = { appNumber, versionId };
  const origin = {
    id,
    target,
    functionName: spec.functionName,
    ip: null,
    caller: null,
    webhook: null,
    trace,
  };
  const run = makeRun(origin, { ...NOT_BEGUN, isAsync: true, state: "queued", createdAt: now });
  return { run, payload: payloadOf(spec), owner: null };
}

function payloadOf({ input }: ScheduleSpec): AcceptedRun["payload"] {
  return {
    input: Buffer.from(JSON.stringify(input)),
    result: null,
    contentType: null,
    isBare: false,
    sealedSecret: null,
  };
}
