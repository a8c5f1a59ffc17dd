import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Kysely } from "kysely";
import { Client } from "pg";
import { Migrator } from "kysely/migration";
import { readAppConfig } from "../../src/config/app-config.ts";
import { uuidBytes } from "../../src/kit/ids.ts";
import { uuidv7 } from "./ids.ts";
import { MIGRATIONS } from "../../src/store/migrate.ts";
import { POSTGRES_TYPES, SQLITE_TYPES } from "../../src/store/migrations/column-types.ts";
import { createPool } from "../../src/store/postgres/connection.ts";
import { createKysely as postgresKysely } from "../../src/store/postgres/dialect.ts";
import { createKysely as sqliteKysely } from "../../src/store/sqlite/dialect.ts";
import type { TestDatabase } from "./databases.ts";

/** A schema that an earlier release left behind. */
export type OldSchema = keyof typeof MIGRATIONS;

/** What an earlier release left: the default project with one app, `app`, and runs of it. */
export type OldInstallation = {
  readonly projectId: string;
  /** A sync run that succeeded. */
  readonly endedId: string;
  /** Async runs that were accepted and never began; none before there were any. */
  readonly queuedIds: readonly string[];
};

type Row = Record<string, unknown>;

/** Makes a database as it was with that schema, with those rows: table by table, in order. */
export async function makeOldDatabase(
  database: TestDatabase,
  schema: OldSchema,
  tables: Readonly<Record<string, readonly Row[]>>,
): Promise<void> {
  const db = openPlain(database);
  await migrateTo(db, schema, database.databaseUrl === null);
  // The names of its tables and columns, not those of today's schema.
  const old = db as unknown as Kysely<Record<string, Row>>;
  for (const [table, rows] of Object.entries(tables)) await old.insertInto(table).values(rows).execute();
  await db.destroy();
}

/** Makes an installation as it was with that schema, column by column. */
export async function makeOldInstallation(
  database: TestDatabase,
  schema: OldSchema,
  main: string,
): Promise<OldInstallation> {
  const db = openPlain(database);
  await migrateTo(db, schema, database.databaseUrl === null);
  // The names of its tables and columns, not those of today's schema.
  const insert = async (table: string, rows: readonly Row[]): Promise<void> => {
    const tables = db as unknown as Kysely<Record<string, Row>>;
    if (rows.length > 0) await tables.insertInto(table).values(rows).execute();
  };
  const now = Date.now();
  const [projectId, versionId, endedId] = ["p-old00000", uuidv7(now), uuidv7(now)];
  const queuedIds = schema === "0001-first-tables" ? [] : Array.from({ length: 20 }, () => uuidv7(now));
  const bundleDir = path.join(database.dataDir, "bundles", projectId, "app", "old");
  mkdirSync(bundleDir, { recursive: true });
  writeFileSync(path.join(bundleDir, "main.py"), main);
  const { config } = readAppConfig({ host: { cpuCount: 2 } });
  const version = uuidBytes(versionId);
  await insert("meta", [{ key: "default_project", value: projectId }]);
  await insert("projects", [{ id: projectId, name: "default", createdAt: now }]);
  await insert("apps", [
    { projectId, name: "app", currentVersionId: version, createdAt: now, updatedAt: now },
  ]);
  await insert("versions", [
    { id: version, appNumber: 1, number: 1, config: JSON.stringify(config), bundleDir, createdAt: now },
  ]);
  const run = (id: string, isAsync: number, state: number): Row => ({
    appNumber: 1,
    id: uuidBytes(id),
    versionId: version,
    functionName: "run",
    method: "POST",
    isAsync,
    state,
    statusCode: state === 2 ? 200 : null,
    attempt: 1,
    createdAt: now,
    updatedAt: now,
    webhookState: 0,
  });
  await insert("runs", [run(endedId, 0, 2), ...queuedIds.map((id) => run(id, 1, 0))]);
  await insert(
    "payloads",
    queuedIds.map((id, n) => ({
      appNumber: 1,
      id: uuidBytes(id),
      input: Buffer.from(JSON.stringify({ n })),
      isBare: 0,
    })),
  );
  await db.destroy();
  return { projectId, endedId, queuedIds };
}

/** Makes an empty database with an earlier schema. */
export async function makeOldSchema(database: TestDatabase, schema: OldSchema): Promise<void> {
  const db = openPlain(database);
  await migrateTo(db, schema, database.databaseUrl === null);
  await db.destroy();
}

function openPlain({ databaseUrl, dataDir }: TestDatabase) {
  return databaseUrl === null
    ? sqliteKysely(new DatabaseSync(path.join(dataDir, "millrace.db")))
    : postgresKysely(createPool(databaseUrl, { max: 1, waitMs: 5_000, statementMs: 30_000 }, Client));
}

async function migrateTo(
  db: Kysely<never> | ReturnType<typeof openPlain>,
  last: OldSchema,
  isSqlite: boolean,
) {
  const types = isSqlite ? SQLITE_TYPES : POSTGRES_TYPES;
  const names = (Object.keys(MIGRATIONS) as OldSchema[]).filter((name) => name <= last);
  const migrations = Object.fromEntries(
    names.map((name) => [name, { up: (on: Kysely<unknown>) => MIGRATIONS[name](on, types) }]),
  );
  const migrator = new Migrator({
    db: db as Kysely<never>,
    provider: { getMigrations: () => Promise.resolve(migrations) },
    migrationTableName: "migrations",
    migrationLockTableName: "migrations_lock",
  });
  const { error } = await migrator.migrateToLatest();
  if (error !== undefined) throw error;
}
