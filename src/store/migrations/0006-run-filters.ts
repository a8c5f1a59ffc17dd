import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/** Indexes for the rare ends of runs, so that a list of them need not look through all others; the age of deliveries. */
export async function runFilters(db: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  // None of them holds a run that succeeded: the common case writes no more than before.
  for (const [name, condition] of [
    ["runs_cancelled", sql<boolean>`state = 4`],
    ["runs_async_failed", sql<boolean>`is_async = 1 and state = 3`],
    ["runs_async_cancelled", sql<boolean>`is_async = 1 and state = 4`],
  ] as const) {
    await db.schema.createIndex(name).on("runs").columns(["app_number", "id"]).where(condition).execute();
  }
  await db.schema
    .createIndex("deliveries_by_age")
    .on("deliveries")
    .column("created_at")
    .where(sql<boolean>`state = 0`)
    .execute();
  if (types.kind !== "sqlite") return;
  // As in the first migration: without figures SQLite would not take a partial index.
  await sql`
    insert into sqlite_stat1 (tbl, idx, stat) values
      ('runs', 'runs_cancelled', '10000 100 1'),
      ('runs', 'runs_async_failed', '10000 100 1'),
      ('runs', 'runs_async_cancelled', '1000 10 1'),
      ('deliveries', 'deliveries_by_age', '1000 2')
  `.execute(db);
  await sql`analyze sqlite_schema`.execute(db);
}
