import type { Run, RunKey } from "../../model/run.ts";
import { acceptedRows, acceptKeyed, packAccepted } from "./accepted-runs.ts";
import { packKeyed, packRefusals, refuseRuns } from "./accepted-runs.ts";
import { all, storedKey } from "../queries.ts";
import { endedRows, joinEnded } from "./ended-runs.ts";
import { heavyRead, packedInsert, packedWrite, read, statement } from "../operation.ts";
import { uuidBytes } from "../../kit/ids.ts";
import { RUN_COLUMNS, runFromRow } from "./run-columns.ts";
import { isLongPage, isLookedThrough, pageOfApp, pageOfProject, type RunFilter } from "./run-pages.ts";
import { searchedPage } from "./run-search.ts";

/** An id that no run has. */
const NO_RUN = new Uint8Array(16);

/** Records of runs. */
export const runs = {
  /**
   * Stores runs that have ended, with all that is kept of them; existing rows stay as they are. Its buffers are copied,
   * not transferred: the caller retries with the same batch.
   */
  insertFinished: { ...packedInsert(joinEnded, endedRows), movedWith: () => [] },

  /** Stores runs that have been accepted: queued, or running where they have an owner. */
  accept: packedInsert(packAccepted, acceptedRows),

  /** After a write whose answer was lost: returns the ids of the runs that are not stored, and now never will be. */
  refuse: packedWrite(packRefusals, refuseRuns),

  /** The same of one run that came with an idempotency key, unless the key is in use. */
  acceptKeyed: packedWrite(packKeyed, acceptKeyed),

  /** Removes nothing, but waits for the table as `accept` does: while it is locked, no run can be accepted. */
  prove: statement(async ({ db }): Promise<void> => {
    await db.deleteFrom("runs").where("appNumber", "=", 0).where("id", "=", NO_RUN).execute();
  }),

  find: read(async ({ db }, key: RunKey): Promise<Run | null> => {
    const query = db.selectFrom("runs").where(all(storedKey(key)));
    const row = await query.select(RUN_COLUMNS).executeTakeFirst();
    return row ? runFromRow(row) : null;
  }),

  /** The owner of a run that is being executed; otherwise null. */
  owner: read(async ({ db }, key: RunKey): Promise<string | null> => {
    const query = db.selectFrom("runs").where(all(storedKey(key)));
    return (await query.select("owner").executeTakeFirst())?.owner ?? null;
  }),

  /** An app's runs, newest first. */
  list: read(
    async (session, filter: RunFilter & { readonly appNumber: number }): Promise<Run[]> =>
      (await pageOfApp(session, filter)).runs,
  ),

  /** The same with the start of the next page. */
  pageOfApp: heavyRead(pageOfApp, isLongPage),

  /** The runs of all apps of a project, newest first. With 1,000 apps a page takes 6 ms on SQLite, 25 on Postgres. */
  pageOfProject: heavyRead(
    async (session, filter: RunFilter & { readonly projectId: string }) =>
      await (isLookedThrough(filter) ? searchedPage : pageOfProject)(session, filter),
  ),

  /** The app of that project that has the run; null if none has. */
  appOf: read(
    async (
      { db },
      { projectId, id }: { readonly projectId: string; readonly id: string },
    ): Promise<number | null> => {
      const query = db.selectFrom("apps").innerJoin("runs", "runs.appNumber", "apps.number");
      const found = query.where("apps.projectId", "=", projectId).where("apps.deletedAt", "is", null);
      const row = await found
        .where("runs.id", "=", uuidBytes(id))
        .select("apps.number")
        .limit(1)
        .executeTakeFirst();
      return row?.number ?? null;
    },
  ),

  /** How many runs are stored, of one app or of all. */
  count: read(async ({ db }, { appNumber }: { readonly appNumber?: number }): Promise<number> => {
    const counted = db.selectFrom("runs").select((eb) => eb.fn.countAll<number>().as("count"));
    const query = appNumber === undefined ? counted : counted.where("appNumber", "=", appNumber);
    return (await query.executeTakeFirstOrThrow()).count;
  }),
};
