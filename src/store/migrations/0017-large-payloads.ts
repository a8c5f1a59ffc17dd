import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/** In place of a column's bytes: the hash and the length of the blob that holds them. */
const PLACES = [
  ["payloads", "input"],
  ["payloads", "result"],
  ["deliveries", "body"],
] as const;

/**
 * Large inputs, results and bodies of webhooks as blobs, and the lengths of the blobs that versions name. Only added, so
 * that services of the release before go on beside this one. Which runs name a blob is looked up in a table of its own:
 * an index over all payloads would keep everybody from writing while it is made.
 */
export async function largePayloads(
  db: Kysely<unknown>,
  { bytes, time, tableInKeyOrder }: ColumnTypes,
): Promise<void> {
  for (const [table, name] of PLACES) {
    await db.schema.alterTable(table).addColumn(`${name}_blob`, "text").execute();
    await db.schema.alterTable(table).addColumn(`${name}_bytes`, time).execute();
  }
  for (const name of ["bundle_bytes", "environment_bytes"])
    await db.schema.alterTable("versions").addColumn(name, time).execute();
  await db.schema
    .createTable("run_blobs")
    .addColumn("hash", "text", (c) => c.notNull())
    .addColumn("app_number", "integer", (c) => c.notNull())
    .addColumn("id", bytes, (c) => c.notNull())
    .addPrimaryKeyConstraint("run_blobs_by_hash", ["hash", "app_number", "id"])
    .modifyEnd(tableInKeyOrder)
    .execute();
}
