import { uuidBytes } from "../kit/ids.ts";
import type { Run, RunState } from "../model/run.ts";
import { acceptKeyed, acceptedRows, packAccepted, packKeyed } from "./accepted-runs.ts";
import { endedRows, packEnded } from "./ended-runs.ts";
import { packedInsert, packedWrite, read } from "./operation.ts";
import { RUN_COLUMNS, UNFINISHED, runFromRow, stateCode } from "./run-columns.ts";
import type { RunKey } from "./run-columns.ts";

type RunFilter = {
  readonly appNumber: number;
  readonly limit: number;
  readonly asyncOnly?: boolean;
  readonly state?: RunState;
  /** Only runs older than this one: the last id of the page before. */
  readonly before?: string;
};

export type { AcceptedRun } from "./accepted-runs.ts";
export type { EndedRun } from "./ended-runs.ts";

/** Records of runs. */
export const runs = {
  /** Stores runs that have ended, with all that is kept of them; what is stored already stays as it is. */
  insertFinished: packedInsert(packEnded, endedRows),

  /** Stores runs that have been accepted: queued, or running where they have an owner. */
  accept: packedInsert(packAccepted, acceptedRows),

  /** The same of one run that came with an idempotency key, unless the key is in use. */
  acceptKeyed: packedWrite(packKeyed, acceptKeyed),

  find: read(async ({ db }, { appNumber, id }: RunKey): Promise<Run | null> => {
    const row = await db
      .selectFrom("runs")
      .select(RUN_COLUMNS)
      .where("appNumber", "=", appNumber)
      .where("id", "=", uuidBytes(id))
      .executeTakeFirst();
    return row ? runFromRow(row) : null;
  }),

  /** An app's runs, newest first. */
  list: read(async ({ db }, filter: RunFilter): Promise<Run[]> => {
    const { appNumber, limit, asyncOnly, state, before } = filter;
    let query = db.selectFrom("runs").select(RUN_COLUMNS).where("appNumber", "=", appNumber);
    // Literals, not parameters: SQLite takes a partial index only if the query repeats its condition.
    if (asyncOnly) query = query.where("isAsync", "=", (eb) => eb.lit(1));
    if (state) query = query.where("state", "=", (eb) => eb.lit(stateCode(state)));
    if (state === "queued" || state === "running") {
      query = query.where((eb) =>
        eb(
          "state",
          "in",
          UNFINISHED.map((name) => eb.lit(stateCode(name))),
        ),
      );
    }
    if (before) query = query.where("id", "<", uuidBytes(before));
    const rows = await query.orderBy("id", "desc").limit(limit).execute();
    return rows.map(runFromRow);
  }),

  /** How many runs are stored, of one app or of all. */
  count: read(async ({ db }, { appNumber }: { readonly appNumber?: number }): Promise<number> => {
    const counted = db.selectFrom("runs").select((eb) => eb.fn.countAll<number>().as("count"));
    const query = appNumber === undefined ? counted : counted.where("appNumber", "=", appNumber);
    return (await query.executeTakeFirstOrThrow()).count;
  }),
};
