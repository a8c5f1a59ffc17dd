import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/** Builds and their logs; what a version was built into. */
export async function builds(db: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { schema } = db;
  const { time, bytes, small, table, tableInKeyOrder } = types;

  await schema
    .createTable("builds")
    .addColumn("id", bytes, (c) => c.primaryKey().notNull())
    .addColumn("app_number", "integer", (c) => c.notNull().references("apps.number"))
    .addColumn("status", small, (c) => c.notNull())
    .addColumn("message", "text")
    .addColumn("payload", "text", (c) => c.notNull())
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("updated_at", time, (c) => c.notNull())
    .modifyEnd(table)
    .execute();
  await schema.createIndex("builds_by_app").on("builds").columns(["app_number", "id"]).execute();
  await schema
    .createIndex("builds_unfinished")
    .on("builds")
    .column("id")
    .where(sql<boolean>`status < 3`)
    .execute();

  await schema
    .createTable("build_lines")
    .addColumn("build_id", bytes, (c) => c.notNull())
    .addColumn("number", "integer", (c) => c.notNull())
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("stream", small, (c) => c.notNull())
    .addColumn("stage", small, (c) => c.notNull())
    .addColumn("text", "text", (c) => c.notNull())
    .addPrimaryKeyConstraint("build_lines_by_number", ["build_id", "number"])
    .modifyEnd(tableInKeyOrder)
    .execute();

  for (const column of ["environment", "python", "bundle_hash", "overrides"]) {
    await schema.alterTable("versions").addColumn(column, "text").execute();
  }

  if (types.kind !== "sqlite") return;
  // As in the first migration: without figures SQLite would not take a partial index.
  await sql`
    insert into sqlite_stat1 (tbl, idx, stat) values
      ('builds', 'builds_by_app', '10000 100 1'),
      ('builds', 'builds_unfinished', '10 1')
  `.execute(db);
  await sql`analyze sqlite_schema`.execute(db);
}
