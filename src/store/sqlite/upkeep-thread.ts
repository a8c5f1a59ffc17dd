// oxlint-disable unicorn/require-post-message-target-origin -- this is a thread, not a window
import { closeSync, fsyncSync, openSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";
import { anchorOf, AUDIT_ANCHOR, AuditChain, type AuditEntry } from "../accounts/audit.ts";
import { type DatabaseReport, storedAmounts, storedVersions } from "../upkeep/report.ts";
import { BEGUN, type UpkeepMessage, type UpkeepTask } from "./backup.ts";
import { freeBytes } from "./connection.ts";

// A thread for one piece of work that reads the whole database: nobody else waits for it.

const AUDIT_ENTRIES =
  'select number, project_id as "projectId", created_at as "createdAt", entry, hash from audit_entries order by number';

const task = workerData as UpkeepTask;
const database = new DatabaseSync(task.path, { readOnly: !task.isAlone });
database.exec("pragma busy_timeout = 5000");
database.prepare("select count(*) from sqlite_schema").get();
send(BEGUN);
const result = task.kind === "copy" ? copy(task.to) : await inspect();
// First: whoever hears the answer may do with the files what they like.
database.close();
send(result);

function send(result: unknown): void {
  parentPort!.postMessage({ result } satisfies UpkeepMessage);
}

/** One read transaction: what is committed meanwhile is not in the copy, and nobody waits for it. */
function copy(to: string): void {
  database.prepare("vacuum into ?").run(to);
  const copied = openSync(to, "r");
  fsyncSync(copied);
  closeSync(copied);
}

async function inspect(): Promise<DatabaseReport> {
  const problems = column("pragma quick_check").filter((line) => line !== "ok");
  const newest = column(`
    select max((select created_at from runs where app_number = apps.number order by id desc limit 1)) from apps
  `);
  const ask = (query: string) => database.prepare(query).all();
  return {
    problems: problems.map(String),
    freeBytes: freeBytes(database),
    migrations: column("select name from migrations order by name").map(String),
    versions: await storedVersions(ask),
    amounts: await storedAmounts(ask),
    objects: objects(),
    newestAt: typeof newest[0] === "number" ? newest[0] : null,
    audit: auditState(),
  };
}

function objects(): string[] {
  const tables = column(
    "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'",
  ).map(String);
  const columns = tables.flatMap((table) =>
    column(`select name from pragma_table_info('${table}')`).map((name) => `column ${table}.${String(name)}`),
  );
  const indexes = column("select name from sqlite_schema where type = 'index' and sql is not null");
  return [...columns, ...indexes.map((name) => `index ${String(name)}`)];
}

function auditState(): DatabaseReport["audit"] {
  const chain = new AuditChain(anchorOf(column(AUDIT_ANCHOR)[0]));
  for (const entry of database.prepare(AUDIT_ENTRIES).iterate()) chain.add(entry as AuditEntry);
  return chain.state;
}

function column(statement: string): unknown[] {
  return database
    .prepare(statement)
    .all()
    .map((row) => Object.values(row)[0]);
}
