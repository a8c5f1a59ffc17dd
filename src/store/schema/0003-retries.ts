import { type Kysely, sql } from "kysely";
import { addColumns, createTables, type Dialect, type Tables } from "./tables.ts";

/** When a queued run may begin; null: now. */
export const DUE_COLUMNS = {
  runs: {
    dueAt: "bigint?",
    indexes: [
      "runs_due (app_number, id) where state = 0 and due_at is null",
      "runs_delayed (due_at) where state = 0 and due_at is not null",
    ],
  },
} as const satisfies Tables;

/** The attempts of a run after which it was tried again; the last one is the run's own row. */
export const ATTEMPT_TABLES = {
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
    errorTraceback: "text?",
    runMs: "double?",
    constraint: "constraint attempts_by_number primary key (app_number, id, number)",
  },
} as const satisfies Tables;

export async function retries(db: Kysely<unknown>, dialect: Dialect): Promise<void> {
  await addColumns(db, dialect, DUE_COLUMNS);
  await createTables(db, dialect, ATTEMPT_TABLES);
  // As for the other indexes of runs: see the first migration.
  if (dialect.kind === "sqlite") {
    await sql`
      insert into sqlite_stat1 (tbl, idx, stat) values
        ('runs', 'runs_due', '1000 10 1'), ('runs', 'runs_delayed', '1000 2'), ('attempts', 'attempts', '10000 100 2 1')
    `.execute(db);
    await sql`analyze sqlite_schema`.execute(db);
  }
}
