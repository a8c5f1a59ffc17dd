import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/** Lines that apps printed, and how much they take up. */
export async function logs(db: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { schema } = db;
  const { time, bytes, small, tableInKeyOrder } = types;

  await schema
    .createTable("log_lines")
    .addColumn("app_number", "integer", (c) => c.notNull())
    .addColumn("id", bytes, (c) => c.notNull())
    .addColumn("run_id", bytes)
    .addColumn("replica_id", "text", (c) => c.notNull())
    .addColumn("line_number", time, (c) => c.notNull())
    .addColumn("stream", small, (c) => c.notNull())
    .addColumn("text", "text", (c) => c.notNull())
    .addPrimaryKeyConstraint("log_lines_by_id", ["app_number", "id"])
    .modifyEnd(tableInKeyOrder)
    .execute();
  await schema
    .createIndex("log_lines_by_run")
    .on("log_lines")
    .columns(["app_number", "run_id", "id"])
    .where(sql<boolean>`run_id is not null`)
    .execute();
  // Over all apps: what is oldest goes first.
  await schema.createIndex("log_lines_by_age").on("log_lines").column("id").execute();

  await schema
    .alterTable("usage")
    .addColumn("log_bytes", time, (c) => c.notNull().defaultTo(0))
    .execute();

  if (types.kind === "sqlite") await describe(db);
}

/** As in the first migration: without figures SQLite would not take a partial index. */
async function describe(db: Kysely<unknown>): Promise<void> {
  await sql`
    insert into sqlite_stat1 (tbl, idx, stat) values
      ('log_lines', 'log_lines', '10000000 100000 1'),
      ('log_lines', 'log_lines_by_run', '10000000 100000 10 1'),
      ('log_lines', 'log_lines_by_age', '10000000 1')
  `.execute(db);
  // Read now: this connection goes on as the writer.
  await sql`analyze sqlite_schema`.execute(db);
}
