import { type Kysely, sql } from "kysely";
import { addColumns, createTables, type Dialect, type Tables } from "./tables.ts";

/** A queued run with this in `dueAt` is parked: its concurrency key has as many runs as it may have. */
export const PARKED = Number.MAX_SAFE_INTEGER;

/** Keys that a call gave; null: none. */
export const QUEUE_LIMIT_COLUMNS = {
  runs: {
    fairnessKey: "text?",
    concurrencyKey: "text?",
    indexes: [
      "runs_turns (app_number, coalesce(fairness_key, account_id, ''), coalesce(place, id)) where state = 0 and due_at is null",
      "runs_keyed (app_number, concurrency_key, state, due_at, coalesce(place, id)) where concurrency_key is not null and state in (0, 1)",
    ],
  },
} as const satisfies Tables;

export const QUEUE_LIMIT_TABLES = {
  /** How many runs of an app, or of a concurrency key of it, have begun lately. */
  startRates: {
    isInKeyOrder: true,
    appNumber: "integer",
    key: "text", // Empty for the whole app.
    starts: "text", // `Starts` as JSON.
    endsAt: "bigint", // When none of them counts any more.
    constraint: "constraint start_rates_by_key primary key (app_number, key)",
    indexes: ["start_rates_by_end (ends_at)"],
  },
} as const satisfies Tables;

/**
 * `runs_turns` takes the place of `runs_due`, whose order it has within each line. A service of the release before has no use for
 * either: it goes by `runs_unfinished`.
 */
export async function queueLimits(db: Kysely<unknown>, dialect: Dialect): Promise<void> {
  await addColumns(db, dialect, QUEUE_LIMIT_COLUMNS);
  await createTables(db, dialect, QUEUE_LIMIT_TABLES);
  await sql`drop index runs_due`.execute(db);
  // As for the other indexes of runs: see the first migration.
  if (dialect.kind === "sqlite") {
    await sql`delete from sqlite_stat1 where idx = 'runs_due'`.execute(db);
    await sql`
      insert into sqlite_stat1 (tbl, idx, stat) values
        ('runs', 'runs_turns', '1000 10 5 1'), ('runs', 'runs_keyed', '1000 100 10 5 2 1'),
        ('start_rates', 'start_rates', '10000 100 1'), ('start_rates', 'start_rates_by_end', '10000 2')
    `.execute(db);
    await sql`analyze sqlite_schema`.execute(db);
  }
}
