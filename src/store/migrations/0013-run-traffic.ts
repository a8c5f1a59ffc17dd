import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/** Runs of server apps: which are WebSockets, and how many bytes the server got and sent. */
export async function runTraffic(db: Kysely<unknown>, { small, time }: ColumnTypes): Promise<void> {
  await db.schema
    .alterTable("runs")
    .addColumn("is_web_socket", small, (c) => c.notNull().defaultTo(sql`0`))
    .execute();
  for (const name of ["request_bytes", "response_bytes"])
    await db.schema.alterTable("runs").addColumn(name, time).execute();
}
