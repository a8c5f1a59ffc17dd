import { all, appsFound, doNothing, firstOf, isDone, storedKey } from "../queries.ts";
import { uuidText } from "../../kit/ids.ts";
import { isFileRun, type Payload, type Run, type RunAttempt, type RunKey } from "../../model/run.ts";
import { type AppHolder, holdsApp } from "../nodes/app-owners.ts";
import { PENDING } from "./deliveries.ts";
import { endQueued, finishClaims, packFinished, packQueuedEnd } from "./final-runs.ts";
import { isExpired } from "../nodes/nodes.ts";
import { packedWrite, read, type Session, write } from "../operation.ts";
import { nameBlob, PAYLOAD_COLUMNS, payloadFromRow } from "./payloads.ts";
import { addUsage, removeRows } from "./removal.ts";
import { codeAfter, codeBefore, isDue, isInState } from "./run-columns.ts";
import { RUN_COLUMNS, runFromRow, STATE_CODES } from "./run-columns.ts";

/** Later writes of the claimer carry the fence. */
export type ClaimedRun = {
  readonly run: Run;
  readonly fence: number;
  readonly payload: Payload;
  /** Its stored chunks, if a caller waited for it: such a run is not executed again. */
  readonly storedEvents: number;
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

type DueQuery = { readonly now: number; readonly limit: number };

type AsyncClaim = Omit<ReleasedClaim, "isInterruption" | "attempt" | "dueAt" | "failed"> & {
  readonly payload: Pick<Payload, "input" | "inputBlob">;
};

/** Async runs, queued or running. A running one has an owner and the fence of its claim; later claims void its writes. */
export const claims = {
  /** Claims the oldest queued runs of an app for the owner; they are running from now on. */
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
      .orderBy("runs.id")
      .execute();
    const again = rows.filter(({ fence }) => fence > 1);
    // Each attempt numbers its events from 1, and an earlier attempt's events would be in the way.
    const executed = again.filter(({ isAsync }) => isAsync === 1);
    await addUsage(session, { bytes: -(await removeRows(session, "transcripts", executed)).bytes });
    const interrupted = again.filter(({ isAsync }) => isAsync === 0).map(({ id }) => id);
    const events = await lastEvents(session, appNumber, interrupted);
    const runs = rows.map((row) => ({
      run: runFromRow(row),
      fence: row.fence,
      payload: payloadFromRow(row),
      storedEvents: events.get(uuidText(row.id)) ?? 0,
    }));
    return { runs, hasMore, isRefused: false };
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
      const row = { ...storedKey(key), ...failed };
      await db.insertInto("attempts").values(row).onConflict(doNothing).execute();
    }
  }),

  /** When the next queued run may begin that may not yet; null if there is none. */
  nextDueAt: read(async ({ db }): Promise<number | null> => {
    const delayed = db.selectFrom("runs").select("dueAt").where("state", "=", STATE_CODES.queued);
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

/** The number of the last stored chunk of each run. */
async function lastEvents({ sql, db }: Session, appNumber: number, ids: readonly Uint8Array[]) {
  if (ids.length === 0) return new Map<string, number>();
  const { rows } = await sql<{ id: Uint8Array; last: number }>`
    select id, max(first_event + event_count - 1) as last from transcripts
    where app_number = ${appNumber} and id in (${sql.join(ids)}) group by id
  `.execute(db);
  return new Map(rows.map(({ id, last }) => [uuidText(id), last]));
}

/** The ids of the oldest queued runs, as many as fit. Postgres locks them. */
async function pickQueued(session: Session, query: ClaimQuery) {
  const { sql, db } = session;
  // One more than wanted, to see whether there are more.
  const { rows } = await sql<{ id: Uint8Array; size: number | null }>`
    select runs.id, coalesce(payloads.input_bytes, length(payloads.input)) as size
    from runs left join payloads on payloads.app_number = runs.app_number and payloads.id = runs.id
    where runs.app_number = ${query.appNumber} and ${isDue(session)}
    order by runs.id limit ${query.limit + 1} ${session.skipLocked("runs")}
  `.execute(db);
  let bytes = 0;
  const count = rows.findIndex(({ size }, i) => {
    bytes += size ?? 0;
    return i === query.limit || (i > 0 && bytes > query.maxBytes);
  });
  return { ids: rows.slice(0, count < 0 ? rows.length : count).map(({ id }) => id), hasMore: count >= 0 };
}
