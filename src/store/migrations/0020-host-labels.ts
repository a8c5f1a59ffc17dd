import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/**
 * The host label of an app if it is hashed, to find the app by it; null otherwise. Apps that a service of an earlier
 * release creates have null until a service of this release starts.
 */
export async function hostLabels(db: Kysely<unknown>, { kind }: ColumnTypes): Promise<void> {
  await db.schema.alterTable("apps").addColumn("host_label", "text").execute();
  await db.schema
    .createIndex("apps_by_host_label")
    .on("apps")
    .column("host_label")
    .where(sql.ref("host_label"), "is not", null)
    .execute();
  if (kind !== "sqlite") return;
  // As in the first migration: without figures SQLite would not take a partial index.
  await sql`
    insert into sqlite_stat1 (tbl, idx, stat) values ('apps', 'apps_by_host_label', '1000 1')
  `.execute(db);
  await sql`analyze sqlite_schema`.execute(db);
}
