import { type Kysely, sql } from "kysely";
import { createTables, type Dialect, type Tables } from "./tables.ts";

/** How far runs have come: the last checkpoint, if they made one, and the last progress that they reported. */
export const CHECKPOINT_TABLES = {
  checkpoints: {
    appNumber: "integer",
    id: "bytes",
    value: "bytes?", // JSON; null if there is only progress.
    sent: "bigint?", // Chunks stored when it was made.
    attempt: "integer?", // The attempt that made it.
    storedAt: "bigint?",
    fraction: "double?",
    message: "text?",
    reportedAt: "bigint?",
    constraint: "constraint checkpoints_by_run primary key (app_number, id)",
  },
} as const satisfies Tables;

export async function checkpoints(db: Kysely<unknown>, dialect: Dialect): Promise<void> {
  await createTables(db, dialect, CHECKPOINT_TABLES);
  // As for other tables: see the first migration.
  if (dialect.kind === "sqlite") {
    await sql`
      insert into sqlite_stat1 (tbl, idx, stat) values
        ('checkpoints', 'sqlite_autoindex_checkpoints_1', '10000 100 1')
    `.execute(db);
    await sql`analyze sqlite_schema`.execute(db);
  }
}
