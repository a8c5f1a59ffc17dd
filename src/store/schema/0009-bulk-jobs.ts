import { type Kysely, sql } from "kysely";
import { createTables, type Dialect, type Tables } from "./tables.ts";

/** Actions on many runs of an app. */
export const BULK_TABLES = {
  bulkJobs: {
    id: "bytes primary key",
    appNumber: "integer",
    action: "text",
    filter: "text", // A `BulkFilter` as JSON.
    state: "smallint",
    total: "bigint?",
    done: "bigint default 0",
    skipped: "text", // Counts by reason, as JSON.
    error: "text?",
    createdAt: "bigint",
    updatedAt: "bigint",
    endedAt: "bigint?",
    /** The service that carries it out, and how often it changed hands. */
    owner: "text?",
    fence: "integer default 0",
    /** Which of the action's states is looked for now, and the id before which it looks on; null: from the newest. */
    stage: "smallint default 0",
    cursor: "bytes?",
    /** Ids of the runs at hand, as JSON, if they cannot be done in one transaction. */
    pending: "text?",
    indexes: ["bulk_jobs_by_app (app_number, id)", "bulk_jobs_open (id) where state = 0"],
  },
} as const satisfies Tables;

export async function bulkJobs(db: Kysely<unknown>, dialect: Dialect): Promise<void> {
  await createTables(db, dialect, BULK_TABLES);
  // As for the indexes of runs: see the first migration.
  if (dialect.kind === "sqlite") {
    await sql`
      insert into sqlite_stat1 (tbl, idx, stat) values
        ('bulk_jobs', 'sqlite_autoindex_bulk_jobs_1', '10000 1'), ('bulk_jobs', 'bulk_jobs_by_app', '10000 100 1'),
        ('bulk_jobs', 'bulk_jobs_open', '10 1')
    `.execute(db);
    await sql`analyze sqlite_schema`.execute(db);
  }
}
