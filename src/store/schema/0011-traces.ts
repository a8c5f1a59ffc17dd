import type { Kysely } from "kysely";
import { addColumns, type Dialect, type Tables } from "./tables.ts";

/**
 * The trace that a run belongs to, as JSON; null: none. A delivery has a copy, because it may outlive its run, and a batch of
 * lines that of its upload, for the runs of its lines.
 */
export const TRACE_COLUMNS = {
  runs: { trace: "text?" },
  deliveries: { trace: "text?" },
  lineBatches: { trace: "text?" },
} as const satisfies Tables;

export async function traces(db: Kysely<unknown>, dialect: Dialect): Promise<void> {
  await addColumns(db, dialect, TRACE_COLUMNS);
}
