import path from "node:path";
import { type Kysely, sql } from "kysely";
import { MIGRATIONS, type Migrations } from "../../src/store/schema/migrate.ts";
import { bringUpToDate, type UpgradeReports } from "../../src/store/postgres/upgrade.ts";
import { openSession } from "../../src/store/sqlite/session.ts";
import { DATABASE_FILE } from "../../src/store/upkeep/whole-database.ts";
import type { TestDatabase } from "./databases.ts";

/** The name of the example. */
export const EXAMPLE = "9999-example";

/** What the next release may do: columns in two tables, and a value in every row that is there. */
async function example(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable("apps").addColumn("example", "text").execute();
  await sql`update apps set example = name`.execute(db);
  await db.schema
    .alterTable("runs")
    .addColumn("example", "integer", (c) => c.notNull().defaultTo(7))
    .execute();
}

/** The migrations of a release that comes after this one. */
export const NEXT_MIGRATIONS: Migrations = { ...MIGRATIONS, [EXAMPLE]: example };

/** Brings a database to the schema of the next release, as its service does when it starts. */
export async function upgradeToNext(
  { databaseUrl, dataDir }: TestDatabase,
  reports: UpgradeReports = {},
  migrations = NEXT_MIGRATIONS,
): Promise<void> {
  if (databaseUrl !== null) return await bringUpToDate(databaseUrl, reports, migrations);
  const session = await openSession("write", path.join(dataDir, DATABASE_FILE), migrations);
  await session.db.destroy();
}
