import { uuidBytes, uuidText } from "../../kit/ids.ts";
import { addSkipped, BULK_STATES, type BulkAction, type BulkFilter } from "../../model/bulk-job.ts";
import type { BulkJob, BulkState, SkipReason } from "../../model/bulk-job.ts";
import { isExpired } from "../nodes/nodes.ts";
import { read, type Row, type Session, write } from "../operation.ts";
import { all, firstOf, isDone } from "../queries.ts";
import { repeatRuns, type RepeatedRun } from "./repeated-runs.ts";
import { removeEnded } from "./removal.ts";

const CODES = Object.fromEntries(BULK_STATES.map((state, code) => [state, code])) as Record<
  BulkState,
  number
>;
/** Jobs of an app that are carried out at a time, and those that have ended that are kept. */
const MAX_OPEN = 10;
const KEPT = 100;

/** A job that a service carries out; its fence is void once another one does. */
export type HeldJob = Pick<BulkJob, "id" | "appNumber" | "action" | "filter"> & {
  readonly owner: string;
  readonly fence: number;
  readonly stage: number;
  readonly cursor: string | null;
  readonly pending: readonly string[] | null;
};

type JobKey = Pick<BulkJob, "appNumber" | "id">;
type OpenJob = Pick<BulkJob, "appNumber" | "id" | "action">;
type NewJob = JobKey & {
  readonly action: BulkAction;
  readonly filter: BulkFilter;
  readonly total: number | null;
  readonly now: number;
};
type ClaimQuery = { readonly id: string; readonly owner: string; readonly isAlone: boolean };
type Holder = Pick<HeldJob, "id" | "owner" | "fence">;

/** How far a job has come: where it looks on, what it has at hand, and what has become of the runs before. */
type BulkStep = Holder &
  Pick<HeldJob, "stage" | "cursor" | "pending"> & {
    readonly done: number;
    readonly skipped: readonly SkipReason[];
    readonly now: number;
  };
type RunsStep = Omit<BulkStep, "done" | "skipped" | "pending"> & { readonly appNumber: number };
type RetryStep = RunsStep & { readonly runs: readonly RepeatedRun[] };
type DeleteStep = RunsStep & { readonly ids: readonly string[] };
type JobEnd = Holder & { readonly state: BulkState; readonly error: string | null; readonly now: number };

/** Actions on many runs of an app. A step is one transaction, which only the service that holds the job can make. */
export const bulkJobs = {
  /** False if the app has too many that are being carried out. */
  insert: write(async ({ db, sql }, job: NewJob): Promise<boolean> => {
    const { appNumber, now, total } = job;
    const ofApp = db.selectFrom("bulkJobs").where("appNumber", "=", appNumber);
    const open = await ofApp.where("state", "=", CODES.running).select("id").limit(MAX_OPEN).execute();
    if (open.length >= MAX_OPEN) return false;
    const row = {
      id: uuidBytes(job.id),
      appNumber,
      action: job.action,
      total,
      createdAt: now,
      updatedAt: now,
    };
    const rest = { filter: JSON.stringify(job.filter), state: CODES.running, skipped: "{}" };
    await db
      .insertInto("bulkJobs")
      .values({ ...row, ...rest })
      .execute();
    await sql`
      delete from bulk_jobs where app_number = ${appNumber} and state <> ${sql.lit(CODES.running)} and id < (
        select id from bulk_jobs where app_number = ${appNumber} order by id desc limit 1 offset ${KEPT}
      )
    `.execute(db);
    return true;
  }),

  find: read(async ({ db }, { appNumber, id }: JobKey): Promise<BulkJob | null> => {
    const row = await firstOf(
      db
        .selectFrom("bulkJobs")
        .selectAll()
        .where(all({ appNumber, id: uuidBytes(id) })),
    );
    return row && jobFromRow(row);
  }),

  /** The newest of an app first. */
  list: read(async ({ db }, query: { readonly appNumber: number; readonly limit: number }) => {
    const ofApp = db.selectFrom("bulkJobs").selectAll().where("appNumber", "=", query.appNumber);
    return (await ofApp.orderBy("id", "desc").limit(query.limit).execute()).map(jobFromRow);
  }),

  /** Jobs that are to be carried out, the oldest first. */
  open: read(async ({ db, sql }, limit: number): Promise<OpenJob[]> => {
    const isOpen = sql<boolean>`state = ${sql.lit(CODES.running)}`;
    const open = db.selectFrom("bulkJobs").select(["id", "appNumber", "action"]).where(isOpen);
    const rows = await open.orderBy("id").limit(limit).execute();
    return rows.map(({ id, appNumber, action }) => ({
      id: uuidText(id),
      appNumber,
      action: action as BulkAction,
    }));
  }),

  /** Null if another service carries it out, or it is over. */
  claim: write(async (session, { id, owner, isAlone }: ClaimQuery): Promise<HeldJob | null> => {
    const { sql, db } = session;
    const isFree = isAlone
      ? sql<boolean>`1 = 1`
      : sql<boolean>`(owner is null or owner = ${owner} or ${isExpired(session, sql.ref("bulk_jobs.owner"))})`;
    const taken = db
      .updateTable("bulkJobs")
      .set((eb) => ({ owner, fence: eb("fence", "+", 1) }))
      .where(all({ id: uuidBytes(id), state: CODES.running }))
      .where(isFree);
    const row = await firstOf(taken.returningAll());
    return row && { ...jobFromRow(row), ...heldFromRow(row), owner };
  }),

  /** Another service may go on with it. */
  letGo: write(async ({ db }, holder: Holder): Promise<void> => {
    await db.updateTable("bulkJobs").set({ owner: null }).where(isHeldBy(holder)).execute();
  }),

  /** False if it is over already. */
  cancel: write(async ({ db }, { appNumber, id, now }: JobKey & { readonly now: number }) => {
    const open = all<"bulkJobs">({ appNumber, id: uuidBytes(id), state: CODES.running });
    const over = { state: CODES.cancelled, updatedAt: now, endedAt: now, owner: null, pending: null };
    return await isDone(db.updateTable("bulkJobs").set(over).where(open));
  }),

  /** Ends a job that the service holds. */
  end: write(async ({ db }, { state, error, now, ...holder }: JobEnd): Promise<void> => {
    const over = { state: CODES[state], error, updatedAt: now, endedAt: now, owner: null, pending: null };
    await db.updateTable("bulkJobs").set(over).where(isHeldBy(holder)).execute();
  }),

  /** Notes how far it has come. False if the service does not hold it any more. */
  note: write(async (session, step: BulkStep): Promise<boolean> => await noteStep(session, step)),

  /** Queues the runs once more, as new ones with the given ids. False as `note`. */
  retry: write(async (session, { runs, ...step }: RetryStep): Promise<boolean> => {
    if (!(await lockJob(session, step))) return false;
    const { done, skipped } = await repeatRuns(session, step, runs);
    return await noteStep(session, { ...step, pending: null, done, skipped });
  }),

  /** Removes the runs, with all that is stored of them. False as `note`. */
  remove: write(async (session, { ids, ...step }: DeleteStep): Promise<boolean> => {
    if (!(await lockJob(session, step))) return false;
    const { removed, unfinished, delivering } = await removeEnded(session, step.appNumber, ids);
    const skipped: SkipReason[] = [
      ...Array<SkipReason>(unfinished).fill("has_not_ended"),
      ...Array<SkipReason>(delivering).fill("delivery_pending"),
    ];
    return await noteStep(session, { ...step, pending: null, done: removed, skipped });
  }),
};

function isHeldBy({ id, owner, fence }: Holder) {
  return all<"bulkJobs">({ id: uuidBytes(id), owner, fence, state: CODES.running });
}

/** Until the transaction ends, no other service can take the job, and it cannot be cancelled. */
async function lockJob({ db }: Session, holder: Holder): Promise<boolean> {
  return await isDone(
    db
      .updateTable("bulkJobs")
      .set((eb) => ({ fence: eb.ref("fence") }))
      .where(isHeldBy(holder)),
  );
}

async function noteStep({ db }: Session, step: BulkStep): Promise<boolean> {
  const { stage, cursor, pending, done, skipped: reasons, now } = step;
  const row = await firstOf(db.selectFrom("bulkJobs").select("skipped").where(isHeldBy(step)));
  if (!row) return false;
  const skipped = JSON.stringify(addSkipped(JSON.parse(row.skipped) as BulkJob["skipped"], reasons));
  const place = {
    stage,
    cursor: cursor === null ? null : uuidBytes(cursor),
    pending: pending && JSON.stringify(pending),
  };
  return await isDone(
    db
      .updateTable("bulkJobs")
      .set((eb) => ({ ...place, skipped, updatedAt: now, done: eb("done", "+", done) }))
      .where(isHeldBy(step)),
  );
}

function heldFromRow({ fence, stage, cursor, pending }: Row<"bulkJobs">) {
  return {
    fence,
    stage,
    cursor: cursor && uuidText(cursor),
    pending: pending === null ? null : (JSON.parse(pending) as string[]),
  };
}

function jobFromRow(row: Row<"bulkJobs">): BulkJob {
  const { id, appNumber, action, filter, state, total, done, skipped, error } = row;
  const { createdAt, updatedAt, endedAt } = row;
  return {
    id: uuidText(id),
    appNumber,
    action: action as BulkAction,
    filter: JSON.parse(filter) as BulkFilter,
    state: BULK_STATES[state] ?? "failed",
    total,
    done,
    skipped: JSON.parse(skipped) as BulkJob["skipped"],
    error,
    createdAt,
    updatedAt,
    endedAt,
  };
}
