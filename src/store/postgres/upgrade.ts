import { type Kysely, sql } from "kysely";
import { pause, systemClock } from "../../kit/clock.ts";
import { migrate, type Migrations } from "../schema/migrate.ts";
import { POSTGRES_DIALECT } from "../schema/tables.ts";
import type { Schema } from "../operation.ts";
import { Connections, type PoolLimits, targetOf } from "./connections.ts";

/** Why a migration waits: another service is migrating, or a table is in use. */
export type UpgradeWait = "another" | "tables";

export type UpgradeReports = {
  /** A database of an earlier release will be changed, which may take long: the names of the migrations. */
  readonly onUpgrade?: ((names: readonly string[]) => void) | undefined;
  readonly onUpgradeWait?: ((reason: UpgradeWait) => void) | undefined;
};

const LIMITS: PoolLimits = { max: 1, waitMs: 5_000, statementMs: null };
/** Kysely's lock. It never changes: services of all releases use it. */
const LOCK = sql.raw("3853314791062309107");
/** How long to wait for a table: less than the time limit of services' statements, which queue behind the migration. */
const TABLE_MS = 1_500;
/** How long to wait before the next attempt. */
const GAP_MS = 1_000;
/** A busy session is done soon; one that is busy for 5 s is left alone. */
const RENEW_TRIES = 50;
const RENEW_GAP_MS = 100;
const LOCK_TIMEOUT = "55P03";

/**
 * Brings a database to this release's schema in one transaction, one service at a time, while services of the previous
 * release continue. If a table is in use, the migration is retried.
 */
export async function bringUpToDate(databaseUrl: string, reports: UpgradeReports, migrations?: Migrations) {
  // Uses no session settings: this address may lead through a pooler too.
  const connections = new Connections(targetOf(databaseUrl, false), LIMITS);
  let isChanged = false;
  const onUpgrade = (names: readonly string[]): void => {
    isChanged = true;
    reports.onUpgrade?.(names);
  };
  try {
    while (!(await isDone(connections.db, { ...reports, onUpgrade }, migrations))) {
      reports.onUpgradeWait?.("tables");
      await pause(systemClock, GAP_MS);
    }
    if (isChanged) await renewSessions(connections.db);
  } finally {
    await connections.close();
  }
}

/** Ends idle sessions of other services, whose prepared statements may select columns of an older schema. */
async function renewSessions(db: Kysely<Schema>): Promise<void> {
  const { rows } = await sql<{ now: string }>`select clock_timestamp()::text as now`.execute(db);
  const since = rows[0]?.now ?? null;
  for (let tries = 0; tries < RENEW_TRIES; tries += 1) {
    const older = await sql<{ isEnded: boolean }>`
      select case when state = 'idle' then pg_terminate_backend(pid) else false end as "isEnded"
      from pg_stat_activity
      where datname = current_database() and usename = current_user and application_name = 'millrace'
        and pid <> pg_backend_pid() and backend_start < ${since}::timestamptz
    `.execute(db);
    if (older.rows.length === 0) return;
    await pause(systemClock, RENEW_GAP_MS);
  }
}

/** False if a table is in use. */
async function isDone(db: Kysely<Schema>, reports: UpgradeReports, migrations?: Migrations) {
  try {
    // Whatever the server's default is: the migration has to see what was committed while it waited for the lock.
    const transaction = db.transaction().setIsolationLevel("read committed");
    await transaction.execute(async (begun) => await migrateAlone(begun, reports, migrations));
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === LOCK_TIMEOUT) return false;
    throw error;
  }
}

/** Holds the lock until everything is committed, also if a pooler lends the session to another client then. */
async function migrateAlone(db: Kysely<Schema>, reports: UpgradeReports, migrations?: Migrations) {
  const { onUpgrade, onUpgradeWait } = reports;
  const lock = sql<{ isOurs: boolean }>`select pg_try_advisory_xact_lock(${LOCK}) as "isOurs"`;
  const { rows } = await lock.execute(db);
  if (rows[0]?.isOurs !== true) {
    onUpgradeWait?.("another");
    await sql`select pg_advisory_xact_lock(${LOCK})`.execute(db);
  }
  await sql`select set_config('lock_timeout', '${sql.raw(String(TABLE_MS))}', true)`.execute(db);
  await migrate(db, { dialect: POSTGRES_DIALECT, migrations, mayBeAhead: true, onUpgrade });
}
