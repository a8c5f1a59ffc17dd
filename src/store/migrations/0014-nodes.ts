import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/**
 * Services that share a database: where each is reached and what it is, and which of them each app belongs to. Columns
 * are only added, so that services of the release before go on beside this one.
 */
export async function nodes(db: Kysely<unknown>, { time }: ColumnTypes): Promise<void> {
  for (const [name, type] of [
    ["url", "text"],
    ["details", "text"],
    ["leaving_at", time],
  ] as const)
    await db.schema.alterTable("owners").addColumn(name, type).execute();
  await db.schema.alterTable("apps").addColumn("owner", "text").execute();
  await db.schema
    .alterTable("apps")
    .addColumn("fence", time, (c) => c.notNull().defaultTo(sql`0`))
    .execute();
  await db.schema
    .createIndex("apps_by_owner")
    .on("apps")
    .columns(["owner", "number"])
    .where(sql.ref("deleted_at"), "is", null)
    .execute();
}
