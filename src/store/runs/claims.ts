import { all, appsFound, doNothing, firstOf, isDone, storedKey } from "../queries.ts";
import { uuidBytes, uuidText } from "../../kit/ids.ts";
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
import { resume } from "./checkpoints.ts";
import { PENDING } from "./deliveries.ts";
import { endQueued, finishClaims, packFinished, packQueuedEnd } from "./final-runs.ts";
import { isExpired } from "../nodes/nodes.ts";
import { packedWrite, read, type Session, write } from "../operation.ts";
import { nameBlob, PAYLOAD_COLUMNS, payloadFromRow } from "./payloads.ts";
import { addUsage, removeRows } from "./removal.ts";
import { codeAfter, codeBefore, isDue, isInState, placeInQueue } from "./run-columns.ts";
import { RUN_COLUMNS, runFromRow, STATE_CODES } from "./run-columns.ts";

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

/** The claimed runs, and whether there are more. `isRefused`: none was claimed, because another node owns the app. */
export type Claimed = Readonly<{ runs: readonly ClaimedRun[]; hasMore: boolean; isRefused: boolean }>;

type ClaimQuery = {
  readonly owner: string;
  readonly appNumber: number;
  /** The node that must own the app; null if there is only one service. */
  readonly holder?: AppHolder | null;
  readonly limit: number;
  /** Of all inputs together; the first run is claimed whatever its size. */
  readonly maxBytes: number;
};

const CLAIM_COLUMNS = [
  ...RUN_COLUMNS.map((name) => `runs.${name}` as const),
  "runs.fence",
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
  /** The attempt that has failed, if one has. */
  readonly failed?: RunAttempt;
};

export type HeldClaim = Pick<ReleasedClaim, "appNumber" | "id" | "fence" | "attempt">;

/** Without a number, of all apps. */
type HeldQuery = { readonly owner: string; readonly appNumber: number | null };

/** How many runs are counted to tell a run's position. */
const EXACT_POSITIONS = 1_000;

type DueQuery = { readonly now: number; readonly limit: number };

type AsyncClaim = Omit<ReleasedClaim, "isInterruption" | "attempt" | "dueAt" | "failed"> & {
  readonly payload: Pick<Payload, "input" | "inputBlob">;
};

/** Async runs, queued or running. A running one has an owner and the fence of its claim; later claims void its writes. */
export const claims = {
  /** Claims the first queued runs of an app for the owner; they are running from now on. */
  claim: write(async (session, query: ClaimQuery): Promise<Claimed> => {
    const { appNumber, owner, holder } = query;
    if (holder && !(await holdsApp(session, appNumber, holder)))
      return { runs: [], hasMore: false, isRefused: true };
    const { ids, hasMore } = await pickQueued(session, query);
    if (ids.length === 0) return { runs: [], hasMore, isRefused: false };
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
      .orderBy(placeInQueue(session))
      .execute();
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
    return { runs, hasMore: hasMore || beyond.length > 0, isRefused: false };
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
  release: write(async ({ db }, released: readonly ReleasedClaim[]): Promise<void> => {
    for (const { fence, owner, isInterruption, attempt, dueAt = null, failed, ...key } of released) {
      const held = { ...storedKey(key), state: codeBefore("release"), fence, owner };
      const queued = { state: codeAfter("release"), owner: null, attempt, dueAt };
      const added = isInterruption ? 1 : 0;
      const update = db
        .updateTable("runs")
        .set((eb) => ({ ...queued, interruptions: eb("interruptions", "+", added) }));
      if (!(await isDone(update.where(all(held)))) || !failed) continue;
      const row = { ...storedKey(key), ...failed, errorMessage: storable(failed.errorMessage) };
      await db.insertInto("attempts").values(row).onConflict(doNothing).execute();
    }
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
   * Where a queued run stands among those of its app that may begin, from 1: counted up to `EXACT_POSITIONS`, beyond that
   * estimated from how close together the first ones are. Null if it does not wait for its turn.
   */
  position: read(async (session, { appNumber, id }: RunKey): Promise<number | null> => {
    const { sql, db } = session;
    const place = placeInQueue(session);
    const key = uuidBytes(id);
    const { rows } = await sql<{ own: Uint8Array; before: number; first: Uint8Array; last: Uint8Array }>`
      with own as (
        select ${place} as place from runs where app_number = ${appNumber} and id = ${key} and ${isDue(session)}
      ), ahead as (
        select ${place} as place from runs
        where runs.app_number = ${appNumber} and ${isDue(session)} and ${place} < (select place from own)
        order by ${place} limit ${EXACT_POSITIONS}
      )
      select own.place as own, (select count(*) from ahead) as before,
        (select place from ahead order by place limit 1) as first,
        (select place from ahead order by place desc limit 1) as last
      from own
    `.execute(db);
    const [found] = rows;
    if (!found) return null;
    const { before } = found;
    if (before < EXACT_POSITIONS) return before + 1;
    const [own, first, last] = [found.own, found.first, found.last].map(timeIn) as [number, number, number];
    return Math.round(EXACT_POSITIONS * Math.max(1, (own - first) / Math.max(1, last - first)));
  }),

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

  /** Ends a queued run. False if it is no longer queued. */
  endQueued: packedWrite(packQueuedEnd, endQueued),
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

/** The ids of the first queued runs, as many as fit. Postgres locks them. */
async function pickQueued(session: Session, query: ClaimQuery) {
  const { sql, db } = session;
  // One more than wanted, to see whether there are more.
  const { rows } = await sql<{ id: Uint8Array; size: number | null }>`
    select runs.id, coalesce(payloads.input_bytes, length(payloads.input)) as size
    from runs left join payloads on payloads.app_number = runs.app_number and payloads.id = runs.id
    where runs.app_number = ${query.appNumber} and ${isDue(session)}
    order by ${placeInQueue(session)} limit ${query.limit + 1} ${session.skipLocked("runs")}
  `.execute(db);
  let bytes = 0;
  const count = rows.findIndex(({ size }, i) => {
    bytes += size ?? 0;
    return i === query.limit || (i > 0 && bytes > query.maxBytes);
  });
  return { ids: rows.slice(0, count < 0 ? rows.length : count).map(({ id }) => id), hasMore: count >= 0 };
}

/** The milliseconds that a place or an id begins with. */
function timeIn(place: Uint8Array): number {
  return Buffer.from(place).readUIntBE(0, 6);
}
