import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Client } from "pg";
import { openSession } from "../../src/store/sqlite/session.ts";
import { openStore } from "../../src/store/store.ts";
import type { TestDatabase } from "./databases.ts";

// Hundreds of tests begin with a new database. To make its tables by one migration after the other takes longer than
// most of them do: they get a copy of one where that has been done. What a first start makes is tested where nothing is
// prepared: by all that run `millrace serve`, and in `thorough/store/migrations.test.ts`.

/** The one for Postgres, on the server that all test files share. */
const TEMPLATE = "millrace_blank";
/** Who makes it keeps the others waiting by this number. */
const TEMPLATE_LOCK = 7_051;

/** Has a service begin with the tables of this release; on Postgres a test does so itself (`testDatabases`). */
export async function prepareDatabase({ databaseUrl, dataDir }: TestDatabase): Promise<void> {
  const isNew = databaseUrl === null && !existsSync(path.join(dataDir, "millrace.db"));
  if (isNew) await prepareSqlite(dataDir);
}

let sqliteFile: Promise<Buffer> | null = null;

/** Puts a `millrace.db` of this release, with nothing in it, into a data directory. */
export async function prepareSqlite(dataDir: string): Promise<void> {
  sqliteFile ??= makeSqlite();
  const bytes = await sqliteFile;
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  writeFileSync(path.join(dataDir, "millrace.db"), bytes, { mode: 0o600 });
}

async function makeSqlite(): Promise<Buffer> {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-data-"));
  try {
    const file = path.join(folder, "millrace.db");
    const session = await openSession("write", file);
    await session.db.destroy();
    return readFileSync(file);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The name of a database of this release, with nothing in it, to make others from; the first who asks makes it. */
export async function blankPostgres(administrator: Client, serverUrl: string): Promise<string> {
  await administrator.query(`select pg_advisory_lock(${TEMPLATE_LOCK})`);
  try {
    const { rowCount } = await administrator.query("select from pg_database where datname = $1", [TEMPLATE]);
    if (rowCount === 0) await makePostgres(administrator, serverUrl);
  } finally {
    await administrator.query(`select pg_advisory_unlock(${TEMPLATE_LOCK})`);
  }
  return TEMPLATE;
}

async function makePostgres(administrator: Client, serverUrl: string): Promise<void> {
  const making = `${TEMPLATE}_making`;
  await administrator.query(`drop database if exists ${making}`);
  await administrator.query(`create database ${making}`);
  const url = new URL(serverUrl);
  url.pathname = `/${making}`;
  const store = await openStore({ databaseUrl: url.href, dataDir: tmpdir() });
  await store.close();
  await administrator.query(`alter database ${making} rename to ${TEMPLATE}`);
}
