import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/** What the lines of each app take up, in place of one sum over all: each app has a share of its own. */
export async function logShares(db: Kysely<unknown>, { time, table }: ColumnTypes): Promise<void> {
  await db.schema
    .createTable("log_usage")
    .addColumn("app_number", "integer", (c) => c.primaryKey().notNull())
    .addColumn("bytes", time, (c) => c.notNull())
    .modifyEnd(table)
    .execute();
  await sql`
    insert into log_usage (app_number, bytes)
    select app_number, sum(octet_length(text) + 150) from log_lines group by app_number
  `.execute(db);
  await sql`alter table usage drop column log_bytes`.execute(db);
}
