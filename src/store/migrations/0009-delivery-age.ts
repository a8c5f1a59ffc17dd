import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/** The index that `0006-run-filters` got after it had been released: databases of that day lack it. */
export async function deliveryAge(db: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  await db.schema
    .createIndex("deliveries_by_age")
    .ifNotExists()
    .on("deliveries")
    .column("created_at")
    .where(sql<boolean>`state = 0`)
    .execute();
  if (types.kind !== "sqlite") return;
  await sql`delete from sqlite_stat1 where idx = 'deliveries_by_age'`.execute(db);
  await sql`insert into sqlite_stat1 (tbl, idx, stat) values ('deliveries', 'deliveries_by_age', '1000 2')`.execute(
    db,
  );
  await sql`analyze sqlite_schema`.execute(db);
}
