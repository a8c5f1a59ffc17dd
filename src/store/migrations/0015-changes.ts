import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/**
 * What services that share a database tell each other: which thing was changed, by which transaction. Whoever remembers
 * a snapshot finds by it exactly what was committed since, in whatever order transactions began and ended.
 */
export async function changes(db: Kysely<unknown>, { kind, time, table }: ColumnTypes): Promise<void> {
  const isShared = kind === "postgres";
  await db.schema
    .createTable("changes")
    // Never given twice, however many there will be.
    .addColumn(
      "number",
      isShared
        ? sql`bigint generated always as identity primary key`
        : sql`integer primary key autoincrement`,
    )
    .addColumn("topic", "text", (c) => c.notNull())
    .addColumn("subject", "text", (c) => c.notNull())
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("txid", isShared ? sql`xid8` : "integer", (c) =>
      c.notNull().defaultTo(isShared ? sql`pg_current_xact_id()` : sql`0`),
    )
    .modifyEnd(table)
    .execute();
  await db.schema.createIndex("changes_by_txid").on("changes").column("txid").execute();
}
