import type { Kysely } from "kysely";
import { addColumns, type Dialect, type Tables } from "./tables.ts";

/** With how many others a run left for its replica, and why then: the reason's place in the model's list. */
export const BATCH_COLUMNS = {
  runs: { batchSize: "smallint?", batchReason: "smallint?" },
} as const satisfies Tables;

export async function batches(db: Kysely<unknown>, dialect: Dialect): Promise<void> {
  await addColumns(db, dialect, BATCH_COLUMNS);
}
