import { type Kysely, sql } from "kysely";
import { createTables, type Dialect, type Tables } from "./tables.ts";

/** Schedules of apps, and each time for which one has fired. */
export const SCHEDULE_TABLES = {
  schedules: {
    number: "counter",
    appNumber: "integer",
    name: "text",
    source: "smallint",
    spec: "text", // A `ScheduleSpec` as JSON.
    pausedAt: "bigint?",
    /** The next time that it stands for, and when it fires for it; null while paused, and if there is none. */
    nextAt: "bigint?",
    fireAt: "bigint?",
    createdAt: "bigint",
    updatedAt: "bigint",
    indexes: [
      "unique schedules_by_name (app_number, name)",
      "schedules_due (fire_at) where fire_at is not null",
    ],
  },
  firings: {
    isInKeyOrder: true,
    schedule: "integer", // Its number.
    at: "bigint", // The time that it stands for.
    appNumber: "integer",
    name: "text", // Of the schedule, which may be gone before its runs.
    isManual: "smallint default 0",
    state: "smallint",
    runId: "bytes?",
    constraint: "constraint firings_by_time primary key (schedule, at)",
    indexes: [
      "firings_open (state, schedule, at) where state in (0, 1, 2)",
      "firings_skipped (schedule, at) where state = 4",
      "firings_by_run (app_number, run_id) where run_id is not null",
    ],
  },
} as const satisfies Tables;

export async function schedules(db: Kysely<unknown>, dialect: Dialect): Promise<void> {
  await createTables(db, dialect, SCHEDULE_TABLES);
  // As for the indexes of runs: see the first migration.
  if (dialect.kind === "sqlite") {
    await sql`
      insert into sqlite_stat1 (tbl, idx, stat) values
        ('schedules', 'schedules_by_name', '1000 10 1'), ('schedules', 'schedules_due', '1000 2'),
        ('firings', 'firings', '100000 100 1'), ('firings', 'firings_open', '1000 300 1 1'),
        ('firings', 'firings_skipped', '10000 100 1'),
        ('firings', 'firings_by_run', '100000 1000 1')
    `.execute(db);
    await sql`analyze sqlite_schema`.execute(db);
  }
}
