import { all, appsFound, doNothing, firstOf, isDone, storedKey } from "../queries.ts";
import { uuidText } from "../../kit/ids.ts";
import { storable } from "../column-batch.ts";
import {
  type Checkpoint,
  isFileRun,
  type Payload,
  type Run,
  type RunAttempt,
  type RunKey,
} from "../../model/run.ts";
import { type AppHolder, holdsApp } from "../nodes/app-owners.ts";
import type { QueueConfig } from "../../model/app-config.ts";
import { resume } from "./checkpoints.ts";
import { PENDING } from "./deliveries.ts";
import { endQueued, finishClaims, packFinished, packQueuedEnds } from "./final-runs.ts";
import { isExpired } from "../nodes/nodes.ts";
import { packedWrite, read, type Session, write } from "../operation.ts";
import { countStarts, keepToKeys, roomOfApp } from "./key-limits.ts";
import { nameBlob, PAYLOAD_COLUMNS, payloadFromRow } from "./payloads.ts";
import { positionOf } from "./positions.ts";
import { addUsage, removeRows } from "./removal.ts";
import { codeAfter, codeBefore, isDue, isInState } from "./run-columns.ts";
import { RUN_COLUMNS, runFromRow, STATE_CODES } from "./run-columns.ts";
import { pickTurns, type Turn, type TurnsQuery } from "./turns.ts";
import { addUses, type DailyUse, joinUses, useOfAttempt } from "../usage/roll-up.ts";

/** Later writes of the claimer carry the fence. */
export type ClaimedRun = {
  readonly run: Run;
  readonly fence: number;
  readonly payload: Payload;
  /** Its stored chunks, if it continues after them; or if a caller waited for it: such a run is not executed again. */
  readonly storedEvents: number;
  /** Their bytes. */
  readonly storedBytes: number;
  /** That of an earlier attempt, after which this one continues. */
  readonly checkpoint: Checkpoint | null;
};

export type Claimed = {
  readonly runs: readonly ClaimedRun[];
  /** Whether there are more. */
  readonly hasMore: boolean;
  /** None was claimed, because another node owns the app. */
  readonly isRefused: boolean;
  /** For the next claim of the app. */
  readonly turn: Turn | null;
  /** None was claimed, because of the app's limits; `nextAt` is when that changes, null at the end of a run. */
  readonly held: { readonly nextAt: number | null } | null;
  /** Concurrency keys of which more runs may begin, now or later. */
  readonly keys: readonly string[];
};

const NOTHING: Claimed = { runs: [], hasMore: false, isRefused: false, turn: null, held: null, keys: [] };

type ClaimQuery = TurnsQuery & {
  readonly owner: string;
  /** The node that must own the app; null if there is only one service. */
  readonly holder?: AppHolder | null;
  readonly limit: number;
  /** Of all inputs together; the first run is claimed whatever its size. */
  readonly maxBytes: number;
  /** What the app allows its runs, and the time, which only those with a rate need. */
  readonly queue?: QueueConfig | undefined;
  readonly now?: number;
};

const CLAIM_COLUMNS = [
  ...RUN_COLUMNS.map((name) => `runs.${name}` as const),
  "runs.fence",
  "runs.concurrencyKey",
  ...PAYLOAD_COLUMNS.map((name) => `payloads.${name}` as const),
] as const;

type RecoverQuery = Readonly<{
  owner: string;
  isAlone: boolean;
  dead?: readonly string[];
  /** As of a `Judgement`. */
  reckonedNow?: number;
}>;

export type ReleasedClaim = RunKey & {
  readonly fence: number;
  readonly owner: string;
  readonly isInterruption: boolean;
  readonly attempt: number;
  /** When it may begin again; absent: at once. */
  readonly dueAt?: number;
  /** The attempt that has failed, if one has, and what it is added to besides the sums of its app. */
  readonly failed?: RunAttempt;
  readonly accountId?: string | null;
  readonly tags?: readonly string[];
};

export type HeldClaim = Pick<ReleasedClaim, "appNumber" | "id" | "fence" | "attempt">;

/** Without a number, of all apps. */
type HeldQuery = { readonly owner: string; readonly appNumber: number | null };

type DueQuery = { readonly now: number; readonly limit: number };

type AsyncClaim = Pick<ReleasedClaim, "appNumber" | "id" | "fence" | "owner"> & {
  readonly payload: Pick<Payload, "input" | "inputBlob">;
};

/** Async runs, queued or running. A running one has an owner and the fence of its claim; later claims void its writes. */
export const claims = {
  /** Claims the queued runs of an app whose turn it is for the owner; they are running from now on. */
  claim: write(async (session, query: ClaimQuery): Promise<Claimed> => {
    const { appNumber, owner, holder, queue, now = 0 } = query;
    if (holder && !(await holdsApp(session, appNumber, holder))) return { ...NOTHING, isRefused: true };
    const limits = { appNumber, queue, now };
    const room = await roomOfApp(session, limits);
    const limit = Math.min(query.limit, room.count);
    // With no room, it is still of interest whether there are any.
    const { picks, hasMore, turn } = await pickTurns(session, { ...query, limit: Math.max(1, limit) });
    const next = { ...NOTHING, hasMore, turn };
    if (picks.length > 0 && limit === 0)
      return { ...next, turn: query.turn ?? null, hasMore: true, held: { nextAt: room.nextAt } };
    const { kept: picked, parkedKeys } = await keepToKeys(session, limits, picks);
    if (picked.length === 0) return { ...next, keys: parkedKeys };
    const ids = picked.map(({ id }) => id);
    const { db } = session;
    await db
      .updateTable("runs")
      .set((eb) => ({ state: codeAfter("claim"), owner, fence: eb("fence", "+", 1) }))
      .where("appNumber", "=", appNumber)
      .where("id", "in", ids)
      .where("state", "=", codeBefore("claim"))
      .execute();
    const rows = await db
      .selectFrom("runs")
      .leftJoin("payloads", (join) =>
        join.onRef("payloads.appNumber", "=", "runs.appNumber").onRef("payloads.id", "=", "runs.id"),
      )
      .select(CLAIM_COLUMNS)
      .where("runs.appNumber", "=", appNumber)
      .where("runs.id", "in", ids)
      .execute();
    const order = new Map(ids.map((id, i) => [uuidText(id), i]));
    rows.sort((a, b) => order.get(uuidText(a.id))! - order.get(uuidText(b.id))!);
    const again = rows.filter(({ fence }) => fence > 1);
    const executed = again.filter(({ isAsync }) => isAsync === 1);
    const executedIds = executed.map(({ id }) => id);
    const { checkpoints, beyond } = await resume(session, query, executedIds);
    await putBack(session, appNumber, beyond);
    const left = new Set(beyond.map(uuidText));
    const kept = again.filter(({ id, isAsync }) => isAsync === 0 || checkpoints.has(uuidText(id)));
    const keptIds = kept.map(({ id }) => id);
    const events = await storedEvents(session, appNumber, keptIds);
    // An earlier release, which may go on beside this one, has begun the run anew and removed what a checkpoint counts.
    const isResumed = (id: string): boolean =>
      (checkpoints.get(id)?.sent ?? Number.POSITIVE_INFINITY) <= (events.get(id)?.last ?? 0);
    // Without a checkpoint, an attempt numbers its events from 1, and an earlier attempt's events would be in the way.
    const anew = executed.filter(({ id }) => !isResumed(uuidText(id)) && !left.has(uuidText(id)));
    const parts = await removeRows(session, "transcripts", anew);
    const notes = await removeRows(session, "checkpoints", anew);
    await addUsage(session, { bytes: -(parts.bytes + notes.bytes) });
    const claimed = rows.filter(({ id }) => !left.has(uuidText(id)));
    // What begins again because a service died has been counted. Later attempts are counted in any case: which of them
    // was interrupted is not known.
    const begun = claimed.filter(({ interruptions, attempt }) => interruptions === 0 || attempt > 1);
    const startedKeys = await countStarts(session, limits, begun);
    const runs = claimed.map((row) => {
      const id = uuidText(row.id);
      const isKept = row.isAsync === 0 || isResumed(id);
      const { last: storedEvents = 0, bytes: storedBytes = 0 } = (isKept && events.get(id)) || {};
      const checkpoint = (isKept && checkpoints.get(id)) || null;
      return {
        run: runFromRow(row),
        fence: row.fence,
        payload: payloadFromRow(row),
        storedEvents,
        storedBytes,
        checkpoint,
      };
    });
    const keys = [...new Set([...parkedKeys, ...startedKeys])];
    return { ...next, runs, keys, hasMore: hasMore || beyond.length > 0 };
  }),

  /** The apps that have queued runs that may begin. */
  backlog: read(async (session): Promise<number[]> => {
    const { db, sql } = session;
    const { rows } = await sql<{ appNumber: number }>`
      ${appsFound(session, "runs", isDue(session))}
      select app_number from found where app_number is not null
    `.execute(db);
    return rows.map(({ appNumber }) => appNumber);
  }),

  /** Ends runs that their claimers still hold, and stores what is kept of them; returns the ids of those. */
  finish: packedWrite(packFinished, finishClaims),

  /**
   * The runs that an owner claimed or accepted as its own, without file runs. A write, so that it comes after all
   * earlier writes: an owner that got no answer to a claim finds out what it claimed.
   */
  held: write(async (session, { appNumber, owner }: HeldQuery): Promise<HeldClaim[]> => {
    const running = session.db
      .selectFrom("runs")
      .select(["appNumber", "id", "fence", "attempt", "functionName"])
      .where(isInState(session, "running"))
      .where("owner", "=", owner);
    const rows = await (appNumber === null ? running : running.where("appNumber", "=", appNumber)).execute();
    const held = rows.filter((row) => !isFileRun(row));
    return held.map(({ functionName: _functionName, ...claim }) => ({ ...claim, id: uuidText(claim.id) }));
  }),

  /** Puts runs that their claimers still hold back into the queue. */
  release: write(async (session, released: readonly ReleasedClaim[]): Promise<void> => {
    const { db } = session;
    const uses: DailyUse[] = [];
    for (const { fence, owner, isInterruption, attempt, dueAt = null, failed, ...run } of released) {
      const { accountId = null, tags = [], ...key } = run;
      const held = { ...storedKey(key), state: codeBefore("release"), fence, owner };
      const queued = { state: codeAfter("release"), owner: null, attempt, dueAt };
      const added = isInterruption ? 1 : 0;
      const update = db
        .updateTable("runs")
        .set((eb) => ({ ...queued, interruptions: eb("interruptions", "+", added) }));
      if (!(await isDone(update.where(all(held)))) || !failed) continue;
      const row = { ...storedKey(key), ...failed, errorMessage: storable(failed.errorMessage) };
      const isNew = await isDone(db.insertInto("attempts").values(row).onConflict(doNothing));
      if (isNew) uses.push(...useOfAttempt(failed, { ...key, accountId, tags }));
    }
    await addUses(session, joinUses(uses));
  }),

  /** When the next queued run may begin that may not yet; null if there is none. */
  nextDueAt: read(async (session): Promise<number | null> => {
    const delayed = session.db.selectFrom("runs").select("dueAt").where(isInState(session, "queued"));
    const next = delayed.where("dueAt", "is not", null).orderBy("dueAt").limit(1);
    return (await firstOf(next))?.dueAt ?? null;
  }),

  /** Lets queued runs begin whose time has come, the earliest first; returns their apps. */
  makeDue: write(async (session, { now, limit }: DueQuery): Promise<number[]> => {
    const { db, sql } = session;
    const { rows } = await sql<{ appNumber: number }>`
      update runs set due_at = null where (app_number, id) in (
        select app_number, id from runs
        where state = ${sql.lit(STATE_CODES.queued)} and due_at is not null and due_at <= ${now}
        order by due_at limit ${limit} ${session.skipLocked("runs")}
      ) returning app_number
    `.execute(db);
    return [...new Set(rows.map(({ appNumber }) => appNumber))];
  }),

  /**
   * How many runs of its app begin before a queued one, from 1, if nothing limits them: counted up to 1,000, beyond that
   * estimated from how close together the first ones of its line are. Null if it does not wait for its turn.
   */
  position: read(positionOf),

  /** The attempts of a run that have failed, the first one first. */
  attempts: read(async ({ db }, key: RunKey): Promise<RunAttempt[]> => {
    const rows = db
      .selectFrom("attempts")
      .selectAll()
      .where(all(storedKey(key)));
    return (await rows.orderBy("number").execute()).map(
      ({ appNumber: _app, id: _id, ...attempt }) => attempt,
    );
  }),

  /**
   * Puts the runs of dead owners back into the queue, and releases their deliveries; returns how many runs. Dead are
   * those with an expired lease, or only `dead` if given, or all others if the caller is the only service.
   */
  recover: write(async (session, { owner, isAlone, dead, reckonedNow }: RecoverQuery): Promise<number> => {
    const { sql, db } = session;
    if (!isAlone && dead?.length === 0) return 0;
    const isHeldByDead = (column: string) => {
      if (isAlone) return sql`true`;
      if (dead) return sql`${sql.ref(column)} in (${sql.join(dead)})`;
      return sql`${sql.ref(column)} <> ${owner} and ${isExpired(session, sql.ref(column), reckonedNow)}`;
    };
    await sql`
      delete from owners where id <> ${owner} and ${isHeldByDead("owners.id")}
    `.execute(db);
    const { numAffectedRows } = await sql`
      update runs set state = ${codeAfter("release")}, owner = null, interruptions = interruptions + 1
      where ${isInState(session, "running")} and ${isHeldByDead("runs.owner")}
    `.execute(db);
    await sql`
      update deliveries set owner = null
      where state = ${sql.lit(PENDING)} and owner is not null and ${isHeldByDead("deliveries.owner")}
    `.execute(db);
    return Number(numAffectedRows);
  }),

  /** Makes a run async after its caller has left. Its input is stored only now, because the run may be executed again. */
  setAsync: write(async (session, { fence, owner, payload, ...run }: AsyncClaim): Promise<void> => {
    const { db } = session;
    const { input, inputBlob: blob } = payload;
    const key = storedKey(run);
    const update = db.updateTable("runs").set({ isAsync: 1 });
    const isHeld = { ...key, state: STATE_CODES.running, fence, owner };
    if (!(await isDone(update.where(all(isHeld))))) return;
    await db
      .updateTable("payloads")
      .set(blob ? { inputBlob: blob.hash, inputBytes: blob.bytes } : { input })
      .where(all(key))
      .execute();
    if (blob) await nameBlob(session, { ...run, hash: blob.hash });
    await addUsage(session, { bytes: blob?.bytes ?? input?.length ?? 0 });
  }),

  /** Ends runs that are still queued; returns the indexes of those. */
  endQueued: packedWrite(packQueuedEnds, endQueued),
};

type StoredEvents = { readonly last: number; readonly bytes: number };

/** The number of the last stored chunk of each run, and the bytes of all of them. */
async function storedEvents({ sql, db }: Session, appNumber: number, ids: readonly Uint8Array[]) {
  if (ids.length === 0) return new Map<string, StoredEvents>();
  // Postgres returns a sum of bigints as text.
  const { rows } = await sql<StoredEvents & { id: Uint8Array }>`
    select id, max(first_event + event_count - 1) as last, cast(sum(length(bytes)) as bigint) as bytes
    from transcripts where app_number = ${appNumber} and id in (${sql.join(ids)}) group by id
  `.execute(db);
  return new Map(rows.map(({ id, last, bytes }) => [uuidText(id), { last, bytes }]));
}

/** Runs that were claimed just now wait again. */
async function putBack({ db }: Session, appNumber: number, ids: readonly Uint8Array[]): Promise<void> {
  if (ids.length === 0) return;
  await db
    .updateTable("runs")
    .set({ state: codeAfter("release"), owner: null })
    .where("appNumber", "=", appNumber)
    .where("id", "in", ids)
    .where("state", "=", codeBefore("release"))
    .execute();
}
