import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/**
 * What a seat on another machine runs, as a mark that tells nothing of it: whoever wants exactly that may take the seat
 * over when its service is gone. Null for one that nobody can take over. And since when its service is known to be gone.
 */
export async function seatWorkloads(db: Kysely<unknown>, { bytes, time }: ColumnTypes): Promise<void> {
  await db.schema.alterTable("seats").addColumn("workload", bytes).execute();
  await db.schema.alterTable("seats").addColumn("lost_at", time).execute();
}
