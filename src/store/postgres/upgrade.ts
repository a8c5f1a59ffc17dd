import { sql } from "kysely";
import type { Kysely } from "kysely";
import { pause, systemClock } from "../../kit/clock.ts";
import { migrate } from "../schema/migrate.ts";
import type { Migrations } from "../schema/migrate.ts";
import { POSTGRES_DIALECT } from "../schema/tables.ts";
import type { Schema } from "../schema/schema.ts";
import type { PoolLimits } from "./connections.ts";
import { Connections, reachOf } from "./connections.ts";

/** Why a migration has to wait: for another service that migrates, or for who uses the tables. */
export type UpgradeWait = "another" | "tables";

export type UpgradeReports = {
  /** A database of an earlier release is about to be changed, which may take long: the names of the migrations. */
  readonly onUpgrade?: ((names: readonly string[]) => void) | undefined;
  readonly onUpgradeWait?: ((reason: UpgradeWait) => void) | undefined;
};

const LIMITS: PoolLimits = { max: 1, waitMs: 5_000, statementMs: null };
/** That of Kysely. It never changes: services of all releases wait for each other by it. */
const LOCK = sql.raw("3853314791062309107");
/**
 * So long a table is waited for. Whoever wants to use it meanwhile waits behind the migration: less than the services
 * that go on give a statement.
 */
const TABLE_MS = 1_500;
/** They get so long to be done before the next try. */
const GAP_MS = 1_000;
/** A session that is in use is done soon; one that is not after 5 s is left alone. */
const RENEW_TRIES = 50;
const RENEW_GAP_MS = 100;
const LOCK_TIMEOUT = "55P03";

/**
 * Brings a database to this release's schema while services of the release before go on: by one service at a time, in
 * one transaction. A large table takes as long as it takes; one that is in use is not waited for, but tried again.
 */
export async function bringUpToDate(
  databaseUrl: string,
  reports: UpgradeReports,
  migrations?: Migrations,
): Promise<void> {
  // Of the session nothing is asked: this address may lead through a pooler, too.
  const connections = new Connections(reachOf(databaseUrl, false), LIMITS);
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

/**
 * Ends sessions of other services that were there before, while they do nothing: what they have prepared may ask for
 * all columns of a table that has more now, and Postgres refuses that. The release before would fail with it each time.
 */
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

async function isDone(
  db: Kysely<Schema>,
  reports: UpgradeReports,
  migrations: Migrations | undefined,
): Promise<boolean> {
  try {
    // Whatever the server's default is: it has to see what was done while it waited for the lock.
    const transaction = db.transaction().setIsolationLevel("read committed");
    await transaction.execute(async (begun) => await migrateAlone(begun, reports, migrations));
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === LOCK_TIMEOUT) return false;
    throw error;
  }
}

/** The lock is held until all of it is committed, also where a pooler gives the session to another then. */
async function migrateAlone(
  db: Kysely<Schema>,
  { onUpgrade, onUpgradeWait }: UpgradeReports,
  migrations: Migrations | undefined,
): Promise<void> {
  const { rows } = await sql<{ isOurs: boolean }>`
    select pg_try_advisory_xact_lock(${LOCK}) as "isOurs"
  `.execute(db);
  if (rows[0]?.isOurs !== true) {
    onUpgradeWait?.("another");
    await sql`select pg_advisory_xact_lock(${LOCK})`.execute(db);
  }
  await sql`select set_config('lock_timeout', '${sql.raw(String(TABLE_MS))}', true)`.execute(db);
  await migrate(db, { dialect: POSTGRES_DIALECT, migrations, mayBeAhead: true, onUpgrade });
}
