import { type Kysely, sql } from "kysely";
import { addColumns, createTables, type Dialect, type Tables } from "./tables.ts";

/**
 * When a queued run may begin; null: now. Where it stands among the others; null: at its id. What its caller asked of the
 * queue, as JSON.
 */
export const QUEUE_COLUMNS = {
  runs: {
    dueAt: "bigint?",
    place: "bytes?",
    terms: "text?",
    indexes: [
      "runs_due (app_number, coalesce(place, id)) where state = 0 and due_at is null",
      "runs_delayed (due_at) where state = 0 and due_at is not null",
    ],
  },
} as const satisfies Tables;

export const QUEUE_TABLES = {
  /** Of a run that was tried again; the last one is the run's own row. */
  attempts: {
    isInKeyOrder: true,
    appNumber: "integer",
    id: "bytes",
    number: "integer",
    startedAt: "bigint?",
    endedAt: "bigint",
    replicaId: "text?",
    errorCode: "text",
    errorMessage: "text",
    runMs: "double?",
    constraint: "constraint attempts_by_number primary key (app_number, id, number)",
  },
  runTags: {
    isInKeyOrder: true,
    appNumber: "integer",
    tag: "text",
    id: "bytes",
    constraint: "constraint run_tags_by_tag primary key (app_number, tag, id)",
    indexes: ["run_tags_by_run (app_number, id)"],
  },
  /** When a run is late by its terms. */
  runLimits: {
    isInKeyOrder: true,
    at: "bigint",
    appNumber: "integer",
    id: "bytes",
    constraint: "constraint run_limits_by_time primary key (at, app_number, id)",
    indexes: ["run_limits_by_run (app_number, id)"],
  },
} as const satisfies Tables;

export async function queues(db: Kysely<unknown>, dialect: Dialect): Promise<void> {
  await addColumns(db, dialect, QUEUE_COLUMNS);
  await createTables(db, dialect, QUEUE_TABLES);
  // As for the other indexes of runs: see the first migration.
  if (dialect.kind === "sqlite") {
    await sql`
      insert into sqlite_stat1 (tbl, idx, stat) values
        ('runs', 'runs_due', '1000 10 1'), ('runs', 'runs_delayed', '1000 2'), ('attempts', 'attempts', '10000 100 2 1'),
        ('run_tags', 'run_tags', '10000 1000 100 1'), ('run_tags', 'run_tags_by_run', '10000 1000 2'),
        ('run_limits', 'run_limits', '10000 2 1 1'), ('run_limits', 'run_limits_by_run', '10000 1000 2')
    `.execute(db);
    await sql`analyze sqlite_schema`.execute(db);
  }
}
