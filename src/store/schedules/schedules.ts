import type { RunKey } from "../../model/run.ts";
import { MAX_SCHEDULES, SCHEDULE_SOURCES } from "../../model/schedule.ts";
import type { RunSchedule, Schedule, ScheduleSpec } from "../../model/schedule.ts";
import { read, type Row, type Session, write } from "../operation.ts";
import { all, doNothing, firstOf, isDone, storedKey } from "../queries.ts";

type ScheduleKey = { readonly appNumber: number; readonly name: string };

/** When a schedule is next due; both null if never, and while it is paused. */
export type NextFiring = Pick<Schedule, "nextAt" | "fireAt">;

/** A schedule of a version's configuration, as of the time at which the version becomes current. */
export type PlannedSchedule = NextFiring & { readonly name: string; readonly spec: ScheduleSpec };

type NewSchedule = PlannedSchedule & { readonly appNumber: number; readonly now: number };

type ScheduleChange = NextFiring &
  Pick<Schedule, "number" | "spec" | "isPaused" | "updatedAt"> & { readonly now: number };

type ListQuery = { readonly appNumber: number; readonly after: string; readonly limit: number };

/** Schedules, by the names that they have in their apps. */
export const schedules = {
  find: read(async ({ db }, key: ScheduleKey): Promise<Schedule | null> => {
    const row = await firstOf(db.selectFrom("schedules").selectAll().where(all(key)));
    return row && scheduleFromRow(row);
  }),

  /** An app's schedules after a name, by name. */
  list: read(async ({ db }, { appNumber, after, limit }: ListQuery): Promise<Schedule[]> => {
    const ofApp = db.selectFrom("schedules").selectAll().where(all({ appNumber }));
    const rows = await ofApp.where("name", ">", after).orderBy("name").limit(limit).execute();
    return rows.map(scheduleFromRow);
  }),

  /** Adds a schedule; null if the name is taken, or the app deleted. `isFull`: the app has too many. */
  insert: write(
    async ({ db }, planned: NewSchedule): Promise<{ schedule: Schedule | null; isFull: boolean }> => {
      const { appNumber, name, spec, nextAt, fireAt, now } = planned;
      // Its lock orders this and the app's deploys and deletion.
      const app = db.updateTable("apps").set((eb) => ({ fence: eb.ref("fence") }));
      const refused = { schedule: null, isFull: false };
      if (!(await isDone(app.where(all({ number: appNumber, deletedAt: null }))))) return refused;
      const counted = db.selectFrom("schedules").where("appNumber", "=", appNumber);
      const { count } = await counted
        .select((eb) => eb.fn.countAll<number>().as("count"))
        .executeTakeFirstOrThrow();
      if (count >= MAX_SCHEDULES) return { ...refused, isFull: true };
      const row = { ...newRow({ appNumber, name, spec, now }), source: API, nextAt, fireAt };
      const made = db.insertInto("schedules").values(row).onConflict(doNothing);
      const inserted = await firstOf(made.returningAll());
      return { schedule: inserted && scheduleFromRow(inserted), isFull: false };
    },
  ),

  /** Changes a schedule that was not changed since it was read; otherwise null. */
  change: write(async ({ db }, change: ScheduleChange): Promise<Schedule | null> => {
    const { number, spec, isPaused, nextAt, fireAt, updatedAt, now } = change;
    const update = db
      .updateTable("schedules")
      .set({
        spec: JSON.stringify(spec),
        pausedAt: isPaused ? now : null,
        nextAt,
        fireAt,
        // Always later, so that a change that read the row before this one fails.
        updatedAt: Math.max(now, updatedAt + 1),
      })
      .where(all({ number, updatedAt }));
    const row = await firstOf(update.returningAll());
    return row && scheduleFromRow(row);
  }),

  /** Removes a schedule; its runs stay, and say who started them. False if there is none. */
  remove: write(async (session, number: number): Promise<boolean> => {
    const removed = await removeSchedules(session, [number]);
    return removed > 0;
  }),

  /** The schedule that has started a run; null if none has. */
  ofRun: read(async ({ db }, key: RunKey): Promise<RunSchedule | null> => {
    const { appNumber, id: runId } = storedKey(key);
    return await firstOf(db.selectFrom("firings").select(["name", "at"]).where(all({ appNumber, runId })));
  }),
};

const APP = SCHEDULE_SOURCES.indexOf("app");
const API = SCHEDULE_SOURCES.indexOf("api");

/** The schedule that a row holds. */
export function scheduleFromRow(row: Row<"schedules">): Schedule {
  const { number, appNumber, name, source, spec, pausedAt, nextAt, fireAt, createdAt, updatedAt } = row;
  return {
    number,
    appNumber,
    name,
    source: SCHEDULE_SOURCES[source] ?? "api",
    spec: JSON.parse(spec) as ScheduleSpec,
    isPaused: pausedAt !== null,
    nextAt,
    fireAt,
    createdAt,
    updatedAt,
  };
}

function newRow({ appNumber, name, spec, now }: Pick<NewSchedule, "appNumber" | "name" | "spec" | "now">) {
  return { appNumber, name, spec: JSON.stringify(spec), pausedAt: null, createdAt: now, updatedAt: now };
}

/**
 * Gives an app the schedules of the configuration that it serves from now on: those of the same name stay paused, and
 * keep their next time unless they fire at others now. Called with a lock on the app's row.
 */
export async function replaceSchedules(
  session: Session,
  appNumber: number,
  planned: readonly PlannedSchedule[],
  now: number,
): Promise<void> {
  const { db } = session;
  const ofApp = db.selectFrom("schedules").selectAll().where("appNumber", "=", appNumber);
  // Else one that is paused meanwhile would get a next time.
  const rows = await ofApp.modifyEnd(session.shareLock).execute();
  const names = new Set(planned.map(({ name }) => name));
  const gone = rows.filter(({ name, source }) => source === APP && !names.has(name));
  await removeSchedules(
    session,
    gone.map(({ number }) => number),
  );
  const known = new Map(rows.map((row) => [row.name, scheduleFromRow(row)]));
  for (const { name, spec, ...planning } of planned) {
    const before = known.get(name);
    const text = JSON.stringify(spec);
    if (!before) {
      const row = { ...newRow({ appNumber, name, spec, now }), source: APP, ...planning };
      await db.insertInto("schedules").values(row).execute();
      continue;
    }
    const isSame = before.source === "app" && JSON.stringify(before.spec) === text;
    // One that could not be read by another release fires no more: this deploy has it fire again.
    if (isSame && (before.isPaused || before.nextAt !== null)) continue;
    const next = before.isPaused ? { nextAt: null, fireAt: null } : firesAlike(before, spec) ? {} : planning;
    const updatedAt = Math.max(now, before.updatedAt + 1);
    const change = db.updateTable("schedules").set({ spec: text, source: APP, ...next, updatedAt });
    await change.where("number", "=", before.number).execute();
  }
}

/** Whether a schedule that is not paused would fire at the same times. */
function firesAlike({ spec: before, nextAt }: Schedule, spec: ScheduleSpec): boolean {
  const { cron, timezone, jitterSeconds } = before;
  const isSame = cron === spec.cron && timezone === spec.timezone && jitterSeconds === spec.jitterSeconds;
  return isSame && nextAt !== null;
}

/** Removes schedules and what they leave besides their runs; returns how many there were. */
async function removeSchedules({ db }: Session, numbers: readonly number[]): Promise<number> {
  if (numbers.length === 0) return 0;
  const { numDeletedRows } = await db
    .deleteFrom("schedules")
    .where("number", "in", numbers)
    .executeTakeFirstOrThrow();
  await db.deleteFrom("firings").where("schedule", "in", numbers).where("runId", "is", null).execute();
  return Number(numDeletedRows);
}

/** Removes the schedules of a deleted app. */
export async function removeSchedulesOf(session: Session, appNumber: number): Promise<void> {
  const rows = await session.db
    .selectFrom("schedules")
    .select("number")
    .where("appNumber", "=", appNumber)
    .execute();
  await removeSchedules(
    session,
    rows.map(({ number }) => number),
  );
}
