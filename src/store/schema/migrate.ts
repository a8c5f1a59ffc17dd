import type { Kysely } from "kysely";
import { type Migration, Migrator } from "kysely/migration";
import { INITIAL_TABLES, initial } from "./0001-initial.ts";
import { BATCH_COLUMNS, batches } from "./0002-batches.ts";
import { QUEUE_COLUMNS, QUEUE_TABLES, queues } from "./0003-queues.ts";
import { CHECKPOINT_TABLES, checkpoints } from "./0004-checkpoints.ts";
import { SCHEDULE_TABLES, schedules } from "./0005-schedules.ts";
import { QUEUE_LIMIT_COLUMNS, QUEUE_LIMIT_TABLES, queueLimits } from "./0006-queue-limits.ts";
import { accountWeight, WEIGHT_COLUMNS } from "./0007-account-weight.ts";
import { QUEUE_STATE_COLUMNS, queueState } from "./0008-queue-state.ts";
import { BULK_TABLES, bulkJobs } from "./0009-bulk-jobs.ts";
import { LINE_BATCH_TABLES, lineBatches } from "./0010-batches.ts";
import { TRACE_COLUMNS, traces } from "./0011-traces.ts";
import { OPENAI_BATCH_TABLES, openaiBatches } from "./0012-openai-batches.ts";
import { USAGE_COLUMNS, USAGE_TABLES, usage } from "./0013-usage.ts";
import type { DatabaseReport } from "../upkeep/report.ts";
import { type Dialect, objectsOf } from "./tables.ts";
import type { Schema } from "../operation.ts";
import { FIRST_MIGRATION, UnreleasedFormat, isUnreleased } from "./unreleased.ts";

/** Migrations by name, in order. */
export type Migrations = Readonly<Record<string, (db: Kysely<unknown>, dialect: Dialect) => Promise<void>>>;

/** In order. A migration that has been released is never edited: the next change is the next number. */
export const MIGRATIONS: Migrations = {
  [FIRST_MIGRATION]: initial,
  "0002-batches": batches,
  "0003-queues": queues,
  "0004-checkpoints": checkpoints,
  "0005-schedules": schedules,
  "0006-queue-limits": queueLimits,
  "0007-account-weight": accountWeight,
  "0008-queue-state": queueState,
  "0009-bulk-jobs": bulkJobs,
  "0010-batches": lineBatches,
  "0011-traces": traces,
  "0012-openai-batches": openaiBatches,
  "0013-usage": usage,
};

/** The names of all migrations of this release, in order. */
export const KNOWN_MIGRATIONS: readonly string[] = Object.keys(MIGRATIONS);

/** What a later migration has replaced. */
const REPLACED: ReadonlySet<string> = new Set(["index runs_due"]);

/** The columns and indexes of a database of this release. A test compares them with those of a new database. */
export const SCHEMA_OBJECTS: readonly string[] = [
  INITIAL_TABLES,
  BATCH_COLUMNS,
  QUEUE_COLUMNS,
  QUEUE_TABLES,
  CHECKPOINT_TABLES,
  SCHEDULE_TABLES,
  QUEUE_LIMIT_COLUMNS,
  QUEUE_LIMIT_TABLES,
  WEIGHT_COLUMNS,
  QUEUE_STATE_COLUMNS,
  BULK_TABLES,
  LINE_BATCH_TABLES,
  TRACE_COLUMNS,
  OPENAI_BATCH_TABLES,
  USAGE_COLUMNS,
  USAGE_TABLES,
  { migrations: { name: "text", timestamp: "text" }, migrationsLock: { id: "text", isLocked: "integer" } },
]
  .flatMap(objectsOf)
  .filter((name) => !REPLACED.has(name));

/** The database was written by a later release, which this one would damage. */
class NewerSchemaError extends Error {
  constructor(unknownNames: readonly string[], last: string) {
    super(
      `the database was written by a newer release of Millrace (it has ${unknownNames.join(", ")}; ` +
        `this release knows ${last}): start that release or a later one`,
    );
    this.name = "NewerSchemaError";
  }
}

type MigrateOptions = {
  readonly dialect: Dialect;
  /** Those of this release; a test adds an example. */
  readonly migrations?: Migrations | undefined;
  /** True where the caller holds a transaction already that Kysely does not know of. */
  readonly disableTransactions?: boolean;
  /** Whether to accept a later schema that includes this one: the services of an installation are upgraded one by one. */
  readonly mayBeAhead?: boolean;
  /** A database of an earlier release is about to be changed: the names of the migrations it lacks. */
  readonly onUpgrade?: ((names: readonly string[]) => void) | undefined;
};

/** Brings the database to this release's schema, all of it or nothing. One at a time. */
export async function migrate(db: Kysely<Schema>, options: MigrateOptions): Promise<void> {
  const { dialect, disableTransactions = false, mayBeAhead = false, onUpgrade } = options;
  const { migrations = MIGRATIONS } = options;
  const bound = Object.entries(migrations).map(([name, up]): [string, Migration] => [
    name,
    { up: async (db) => await up(db, dialect) },
  ]);
  const migrator = new Migrator({
    db,
    provider: { getMigrations: () => Promise.resolve(Object.fromEntries(bound)) },
    migrationTableName: "migrations",
    migrationLockTableName: "migrations_lock",
    disableTransactions,
  });
  const known = await migrator.getMigrations();
  const missing = known.filter(({ executedAt }) => !executedAt).map(({ name }) => name);
  const applied = await appliedMigrations(db);
  if (isUnreleased(applied)) throw new UnreleasedFormat("the database");
  const unknown = applied.filter((name) => !(name in migrations));
  if (unknown.length > 0) {
    const last = known.at(-1)?.name ?? "";
    if (mayBeAhead && missing.length === 0 && (await servesRelease(db, last))) return;
    throw new NewerSchemaError(unknown, last);
  }
  if (missing.length > 0 && applied.length > 0) onUpgrade?.(missing);
  const { error } = await migrator.migrateToLatest();
  if (error !== undefined) throw error;
}

/**
 * Migrations only add, so that earlier releases continue. One that removes something stores, under `serves_from`, the
 * oldest migration whose release does not need it.
 */
async function servesRelease(db: Kysely<Schema>, last: string): Promise<boolean> {
  const row = await db.selectFrom("meta").select("value").where("key", "=", "serves_from").executeTakeFirst();
  return row === undefined || row.value <= last;
}

/** The names of the migrations that the database has been through; none if it is new. */
async function appliedMigrations(db: Kysely<Schema>): Promise<string[]> {
  const tables = await db.introspection.getTables({ withInternalKyselyTables: true });
  if (!tables.some(({ name }) => name === "migrations")) return [];
  const rows = await db
    .withTables<{ migrations: { name: string } }>()
    .selectFrom("migrations")
    .select("name")
    .orderBy("name")
    .execute();
  return rows.map(({ name }) => name);
}

/** How the schema of a database compares to this release's. */
export function schemaState({
  migrations,
}: Pick<DatabaseReport, "migrations">): "current" | "older" | "newer" {
  if (migrations.some((name) => !KNOWN_MIGRATIONS.includes(name))) return "newer";
  return migrations.length < KNOWN_MIGRATIONS.length ? "older" : "current";
}

/** The columns and indexes that a database of this release lacks; none for a database of another release. */
export function missingObjects(report: DatabaseReport): string[] {
  if (schemaState(report) !== "current") return [];
  const present = new Set(report.objects);
  return SCHEMA_OBJECTS.filter((name) => !present.has(name));
}
