import type { Kysely } from "kysely";
import { Migrator } from "kysely/migration";
import type { Migration } from "kysely/migration";
import { firstTables } from "./migrations/0001-first-tables.ts";
import { asyncRuns } from "./migrations/0002-async-runs.ts";
import { people } from "./migrations/0003-people.ts";
import { logs } from "./migrations/0004-logs.ts";
import { auditAndSecrets } from "./migrations/0005-audit-and-secrets.ts";
import { runFilters } from "./migrations/0006-run-filters.ts";
import { builds } from "./migrations/0007-builds.ts";
import { deliveryAge } from "./migrations/0009-delivery-age.ts";
import { invitations } from "./migrations/0010-invitations.ts";
import { places } from "./migrations/0011-places.ts";
import { logShares } from "./migrations/0012-log-shares.ts";
import { runTraffic } from "./migrations/0013-run-traffic.ts";
import { nodes } from "./migrations/0014-nodes.ts";
import { changes } from "./migrations/0015-changes.ts";
import { blobs } from "./migrations/0016-blobs.ts";
import { largePayloads } from "./migrations/0017-large-payloads.ts";
import { seats } from "./migrations/0018-seats.ts";
import { seatWorkloads } from "./migrations/0019-seat-workloads.ts";
import { hostLabels } from "./migrations/0020-host-labels.ts";
import { callAccounts } from "./migrations/0021-call-accounts.ts";
import type { ColumnTypes } from "./migrations/column-types.ts";
import type { Schema } from "./schema.ts";

/** In order. A migration that is committed is never edited: the next change is the next number. */
export const MIGRATIONS = {
  "0001-first-tables": firstTables,
  "0002-async-runs": asyncRuns,
  "0003-people": people,
  "0004-logs": logs,
  "0005-audit-and-secrets": auditAndSecrets,
  "0006-run-filters": runFilters,
  "0007-builds": builds,
  "0009-delivery-age": deliveryAge,
  "0010-invitations": invitations,
  "0011-places": places,
  "0012-log-shares": logShares,
  "0013-run-traffic": runTraffic,
  "0014-nodes": nodes,
  "0015-changes": changes,
  "0016-blobs": blobs,
  "0017-large-payloads": largePayloads,
  "0018-seats": seats,
  "0019-seat-workloads": seatWorkloads,
  "0020-host-labels": hostLabels,
  "0021-call-accounts": callAccounts,
} as const;

/** The names of all migrations of this release, in order. */
export const KNOWN_MIGRATIONS: readonly string[] = Object.keys(MIGRATIONS);

/** The database was written by a later release, which this one would damage. */
class NewerSchemaError extends Error {
  constructor(unknownNames: readonly string[]) {
    super(
      `the database was written by a newer release of Millrace (it has ${unknownNames.join(", ")}; ` +
        `this release knows ${KNOWN_MIGRATIONS.at(-1)}): start that release or a later one`,
    );
    this.name = "NewerSchemaError";
  }
}

type MigrateOptions = {
  readonly types: ColumnTypes;
  /** True where the caller holds a transaction already that Kysely does not know of. */
  readonly disableTransactions?: boolean;
  /** Whether a later schema will do that has all of this one's: services are brought to a release one by one. */
  readonly mayBeAhead?: boolean;
  /** A database of an earlier release is about to be changed: the names of the migrations it lacks. */
  readonly onUpgrade?: ((names: readonly string[]) => void) | undefined;
};

/** Brings the database to this release's schema, all of it or nothing. One at a time. */
export async function migrate(db: Kysely<Schema>, options: MigrateOptions): Promise<void> {
  const { types, disableTransactions = false, mayBeAhead = false, onUpgrade } = options;
  const migrator = new Migrator({
    db,
    provider: { getMigrations: () => Promise.resolve(bindTypes(types)) },
    migrationTableName: "migrations",
    migrationLockTableName: "migrations_lock",
    disableTransactions,
  });
  const missing = (await migrator.getMigrations()).filter(({ executedAt }) => !executedAt);
  const isNew = missing.length === KNOWN_MIGRATIONS.length;
  const unknownNames = isNew ? [] : await unknownMigrations(db);
  if (unknownNames.length > 0) {
    if (mayBeAhead && missing.length === 0 && (await servesThisRelease(db))) return;
    throw new NewerSchemaError(unknownNames);
  }
  if (missing.length > 0 && !isNew) onUpgrade?.(missing.map(({ name }) => name));
  const { error } = await migrator.migrateToLatest();
  if (error !== undefined) throw error;
}

/**
 * Migrations only add, so that earlier releases go on. One that takes away what they need writes down the name of the
 * oldest migration whose release does not, under `serves_from`.
 */
async function servesThisRelease(db: Kysely<Schema>): Promise<boolean> {
  const row = await db.selectFrom("meta").select("value").where("key", "=", "serves_from").executeTakeFirst();
  return row === undefined || row.value <= (KNOWN_MIGRATIONS.at(-1) ?? "");
}

function bindTypes(types: ColumnTypes): Record<string, Migration> {
  return Object.fromEntries(
    Object.entries(MIGRATIONS).map(([name, up]) => [
      name,
      { up: async (db: Kysely<unknown>) => await up(db, types) },
    ]),
  );
}

async function unknownMigrations(db: Kysely<Schema>): Promise<string[]> {
  const rows = await db
    .withTables<{ migrations: { name: string } }>()
    .selectFrom("migrations")
    .select("name")
    .orderBy("name")
    .execute();
  return rows.map(({ name }) => name).filter((name) => !KNOWN_MIGRATIONS.includes(name));
}
