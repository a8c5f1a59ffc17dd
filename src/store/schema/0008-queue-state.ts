import type { Kysely } from "kysely";
import { addColumns, type Dialect, type Tables } from "./tables.ts";

/** Whether an app's queue takes and begins async runs, and since when; a null time: it was never changed. */
export const QUEUE_STATE_COLUMNS = {
  apps: { queueState: "smallint default 0", queueChangedAt: "bigint?" },
} as const satisfies Tables;

export async function queueState(db: Kysely<unknown>, dialect: Dialect): Promise<void> {
  await addColumns(db, dialect, QUEUE_STATE_COLUMNS);
}
