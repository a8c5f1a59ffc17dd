import { uuidBytes } from "../../kit/ids.ts";
import type { Run, RunKey } from "../../model/run.ts";
import {
  acceptKeyed,
  acceptedRows,
  packAccepted,
  packKeyed,
  packRefusals,
  refuseRuns,
} from "./accepted-runs.ts";
import { endedRows, joinEnded } from "./ended-runs.ts";
import { heavyRead, packedInsert, packedWrite, read, statement } from "../operation.ts";
import { RUN_COLUMNS, runFromRow } from "./run-columns.ts";
import { isLongPage, pageOfApp, pageOfProject, type RunFilter } from "./run-pages.ts";

/** An id that no run has. */
const NO_RUN = new Uint8Array(16);

/** Records of runs. */
export const runs = {
  /**
   * Stores runs that have ended, with all that is kept of them; what is stored already stays as it is. Nothing
   * moves away with it: who could not store them tries again.
   */
  insertFinished: { ...packedInsert(joinEnded, endedRows), movedWith: () => [] },

  /** Stores runs that have been accepted: queued, or running where they have an owner. */
  accept: packedInsert(packAccepted, acceptedRows),

  /**
   * Finds out which runs are not stored, after a write whose answer was lost, and makes sure that they never will
   * be; returns their ids.
   */
  refuse: packedWrite(packRefusals, refuseRuns),

  /** The same of one run that came with an idempotency key, unless the key is in use. */
  acceptKeyed: packedWrite(packKeyed, acceptKeyed),

  /** Removes nothing, but waits for the table as `accept` does: while it is locked, no run can be accepted. */
  prove: statement(async ({ db }): Promise<void> => {
    await db.deleteFrom("runs").where("appNumber", "=", 0).where("id", "=", NO_RUN).execute();
  }),

  find: read(async ({ db }, { appNumber, id }: RunKey): Promise<Run | null> => {
    const row = await db
      .selectFrom("runs")
      .select(RUN_COLUMNS)
      .where((eb) => eb.and({ appNumber, id: uuidBytes(id) }))
      .executeTakeFirst();
    return row ? runFromRow(row) : null;
  }),

  /** Who executes a run; null for one that nobody does. */
  owner: read(async ({ db }, { appNumber, id }: RunKey): Promise<string | null> => {
    const row = await db
      .selectFrom("runs")
      .select("owner")
      .where((eb) => eb.and({ appNumber, id: uuidBytes(id) }))
      .executeTakeFirst();
    return row?.owner ?? null;
  }),

  /** An app's runs, newest first. */
  list: read(
    async (session, filter: RunFilter & { readonly appNumber: number }): Promise<Run[]> =>
      (await pageOfApp(session, filter)).runs,
  ),

  /** The same with where it goes on. */
  pageOfApp: heavyRead(pageOfApp, isLongPage),

  /** The runs of all apps of a project, newest first. With 1,000 apps a page takes 6 ms on SQLite, 25 on Postgres. */
  pageOfProject: heavyRead(pageOfProject),

  /** How many runs are stored, of one app or of all. */
  count: read(async ({ db }, { appNumber }: { readonly appNumber?: number }): Promise<number> => {
    const counted = db.selectFrom("runs").select((eb) => eb.fn.countAll<number>().as("count"));
    const query = appNumber === undefined ? counted : counted.where("appNumber", "=", appNumber);
    return (await query.executeTakeFirstOrThrow()).count;
  }),
};
