import path from "node:path";
import type { DatabaseReport } from "./database-report.ts";

type DatabaseLocation = { readonly databaseUrl: string | null; readonly dataDir: string };

/** The name of the SQLite database in a data directory. */
export const DATABASE_FILE = "millrace.db";

/**
 * Reads all of the database, and changes nothing; `isAlone` says that no service has it open. `onBegun` hears when
 * the first of it was read; a Postgres server bounds that itself.
 */
export async function inspectDatabase(
  { databaseUrl, dataDir }: DatabaseLocation,
  isAlone: boolean,
  onBegun: () => void = () => {},
): Promise<DatabaseReport> {
  if (databaseUrl === null) {
    const { inspectSqlite } = await import("./sqlite/backup.ts");
    return await inspectSqlite(path.join(dataDir, DATABASE_FILE), isAlone, onBegun);
  }
  onBegun();
  return await (await import("./postgres/backup.ts")).inspectPostgres(databaseUrl);
}

/** Copies a SQLite database as it is at one moment into a new file; a service may go on with it. */
export async function copyDatabase(dataDir: string, to: string, isAlone: boolean): Promise<void> {
  await (await import("./sqlite/backup.ts")).copySqlite(path.join(dataDir, DATABASE_FILE), to, isAlone);
}
