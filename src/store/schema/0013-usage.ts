import { type Kysely, sql } from "kysely";
import { addColumns, createTables, type Dialect, type Tables } from "./tables.ts";

/** What a run used that its record did not have; and what accounts and projects may use, as JSON. */
export const USAGE_COLUMNS = {
  runs: {
    gpuMs: "double?",
    inputTokens: "bigint?",
    outputTokens: "bigint?",
  },
  attempts: { gpuMs: "double?" },
  serviceAccounts: { quotas: "text?" },
  projects: { quotas: "text?" },
} as const satisfies Tables;

export const USAGE_TABLES = {
  /**
   * The sums of the runs that ended on a day. The rows without a tag have all runs, by account; those with one have the
   * runs that have the tag, of all accounts.
   */
  dailyUsage: {
    isInKeyOrder: true,
    appNumber: "integer",
    day: "integer", // Since 1970, in UTC.
    tag: "text", // Empty: all runs.
    accountId: "text", // Empty: calls without a token, and rows with a tag.
    succeeded: "bigint",
    failed: "bigint",
    cancelled: "bigint",
    /** Attempts after which runs were tried again. */
    retried: "bigint",
    /** Microseconds, so that sums are exact. */
    runUs: "bigint",
    gpuUs: "bigint",
    requestBytes: "bigint",
    responseBytes: "bigint",
    inputTokens: "bigint",
    outputTokens: "bigint",
    constraint: "constraint daily_usage_by_app primary key (app_number, day, tag, account_id)",
    indexes: ["daily_usage_by_day (day)"],
  },
  /** What the replicas of an app used on a day, as far as it was measured. */
  replicaUsage: {
    isInKeyOrder: true,
    appNumber: "integer",
    day: "integer",
    replicaMs: "double",
    cpuMs: "double",
    gpuMs: "double",
    gbMs: "double", // Gigabytes of memory, times milliseconds.
    constraint: "constraint replica_usage_by_app primary key (app_number, day)",
    indexes: ["replica_usage_by_day (day)"],
  },
  /** What nodes have counted of accounts and projects with quotas, for the other nodes. */
  quotaCounts: {
    isInKeyOrder: true,
    subject: "text", // The id of an account or a project.
    node: "text",
    calls: "bigint", // In the last minute.
    running: "bigint",
    countedAt: "bigint",
    constraint: "constraint quota_counts_by_subject primary key (subject, node)",
    indexes: ["quota_counts_by_age (counted_at)"],
  },
} as const satisfies Tables;

export async function usage(db: Kysely<unknown>, dialect: Dialect): Promise<void> {
  await addColumns(db, dialect, USAGE_COLUMNS);
  await createTables(db, dialect, USAGE_TABLES);
  // As for the indexes of runs: see the first migration.
  if (dialect.kind === "sqlite") {
    await sql`
      insert into sqlite_stat1 (tbl, idx, stat) values
        ('daily_usage', 'daily_usage', '1000000 4000 10 2 1'), ('daily_usage', 'daily_usage_by_day', '1000000 2500'),
        ('replica_usage', 'replica_usage', '100000 400 1'), ('replica_usage', 'replica_usage_by_day', '100000 250'),
        ('quota_counts', 'quota_counts', '1000 3 1'), ('quota_counts', 'quota_counts_by_age', '1000 2')
    `.execute(db);
    await sql`analyze sqlite_schema`.execute(db);
  }
}
