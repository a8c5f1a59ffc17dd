import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/**
 * Seats on other machines, and which service each belongs to. An agent that has lost its service shows seat, secret and
 * fence to any of them.
 */
export async function seats(
  db: Kysely<unknown>,
  { bytes, time, tableInKeyOrder }: ColumnTypes,
): Promise<void> {
  await db.schema
    .createTable("seats")
    .addColumn("id", "text", (c) => c.primaryKey().notNull())
    .addColumn("app_number", "integer", (c) => c.notNull())
    .addColumn("version_id", bytes, (c) => c.notNull())
    .addColumn("place_name", "text", (c) => c.notNull())
    .addColumn("secret_hash", bytes, (c) => c.notNull())
    .addColumn("fence", time, (c) => c.notNull())
    .addColumn("owner", "text", (c) => c.notNull())
    .addColumn("created_at", time, (c) => c.notNull())
    .modifyEnd(tableInKeyOrder)
    .execute();
  await db.schema.createIndex("seats_by_owner").on("seats").column("owner").execute();
}
