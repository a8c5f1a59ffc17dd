import { uuidBytes, uuidText } from "../../kit/ids.ts";
import type { App } from "../../model/app.ts";
import { hashedLabel, type HostedApp } from "../../model/names.ts";
import { type AppHolder, requireApp } from "../nodes/app-owners.ts";
import { isNoted } from "../nodes/changes.ts";
import { read, type Row, type Session, write } from "../operation.ts";
import { all, doNothing, firstOf } from "../queries.ts";
import { isQueued } from "../runs/run-columns.ts";
import { type PlannedSchedule, removeSchedulesOf, replaceSchedules } from "../schedules/schedules.ts";

type AppKey = { readonly projectId: string; readonly name: string };

/** A change that only the app's owner may make. The holder is null if there is only one service. */
type HeldChange = Readonly<{ appNumber: number; now: number; holder?: AppHolder | null }>;

type NewCurrent = HeldChange & {
  readonly versionId: string;
  /** Those of its configuration. */
  readonly schedules?: readonly PlannedSchedule[];
};

/** Delayed runs of a deleted app that are made due. */
const ORPHANS = 100;

/** Apps that are not deleted. A deleted one keeps its number, and its name is free again. */
export const apps = {
  /** Returns the project's app of that name, and creates it if there is none. */
  insertOrFind: write(async (session, input: AppKey & { readonly createdAt: number }): Promise<App> => {
    const { projectId, name, createdAt } = input;
    const hostLabel = hashedLabel({ projectId, appName: name });
    const values = { projectId, name, createdAt, updatedAt: createdAt, hostLabel };
    const made = session.db.insertInto("apps").values(values).onConflict(doNothing);
    const row = await firstOf(made.returningAll());
    const app = row ? fromRow(row) : await findApp(session, { projectId, name });
    if (!app) throw new Error(`the app ${projectId}/${name} can neither be made nor found`);
    return app;
  }),

  find: read(findApp),

  findByNumber: read(async (session, appNumber: number): Promise<App | null> => {
    const row = await firstOf(living(session).where("number", "=", appNumber));
    return row && fromRow(row);
  }),

  /** A project's apps, by name. */
  list: read(async (session, projectId: string): Promise<App[]> => {
    const rows = await living(session).where("projectId", "=", projectId).orderBy("name").execute();
    return rows.map(fromRow);
  }),

  /** Finds apps by their hashed host labels. */
  findHosted: read(
    async ({ db }, labels: readonly string[]): Promise<HostedApp[]> =>
      await db
        .selectFrom("apps")
        .select(["projectId", "name as appName"])
        .where("hostLabel", "in", labels)
        .where("hostLabel", "is not", null)
        .where("deletedAt", "is", null)
        .execute(),
  ),

  /** The apps of every project, by number. */
  listAll: read(async (session): Promise<App[]> => {
    const rows = await living(session).orderBy("number").execute();
    return rows.map(fromRow);
  }),

  /** Makes a version of the app the one that takes new calls. False if the app has no such version. */
  setCurrentVersion: write(async (session, input: NewCurrent): Promise<boolean> => {
    const { appNumber, now, holder = null, schedules = [] } = input;
    await requireApp(session, appNumber, holder);
    const id = uuidBytes(input.versionId);
    const { db } = session;
    const version = db.selectFrom("versions").select("id").where(all({ id, appNumber }));
    const update = db
      .updateTable("apps")
      .set({ currentVersionId: id, updatedAt: now })
      .where(all({ number: appNumber, deletedAt: null }))
      .where((eb) => eb.exists(version));
    if (!(await isNoted(session, update, "app", appNumber))) return false;
    await replaceSchedules(session, appNumber, schedules, now);
    return true;
  }),

  /** False if there is no such app, or if it is deleted already. */
  markDeleted: write(async (session, { appNumber, now, holder = null }: HeldChange): Promise<boolean> => {
    await requireApp(session, appNumber, holder);
    const deletion = session.db.updateTable("apps").set({ deletedAt: now, updatedAt: now });
    const living = all({ number: appNumber, deletedAt: null });
    if (!(await isNoted(session, deletion.where(living), "app", appNumber))) return false;
    // Delayed runs end with the others that wait, newest first: the last ones to end keep the app in the backlog. A few
    // are enough, and to delete an app takes the same time however many it has.
    const { db } = session;
    const delayed = await db
      .selectFrom("runs")
      .select("id")
      .where("appNumber", "=", appNumber)
      .where(isQueued(session))
      .where("dueAt", "is not", null)
      .orderBy("id")
      .limit(ORPHANS)
      .execute();
    // By their ids, and in a statement of its own: Postgres without statistics would look for each of them in all runs.
    if (delayed.length > 0)
      await db
        .updateTable("runs")
        .set({ dueAt: null })
        .where("appNumber", "=", appNumber)
        .where(
          "id",
          "in",
          delayed.map(({ id }) => id),
        )
        .where(isQueued(session))
        .execute();
    await removeSchedulesOf(session, appNumber);
    await db.deleteFrom("bulkJobs").where("appNumber", "=", appNumber).execute();
    return true;
  }),
};

function living({ db }: Session) {
  return db.selectFrom("apps").selectAll().where("deletedAt", "is", null);
}

async function findApp(session: Session, { projectId, name }: AppKey): Promise<App | null> {
  const row = await firstOf(living(session).where(all({ projectId, name })));
  return row && fromRow(row);
}

function fromRow({ number, projectId, name, currentVersionId, createdAt, updatedAt }: Row<"apps">): App {
  const versionId = currentVersionId && uuidText(currentVersionId);
  return { number, projectId, name, currentVersionId: versionId, createdAt, updatedAt };
}
