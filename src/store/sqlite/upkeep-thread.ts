// oxlint-disable unicorn/require-post-message-target-origin -- this is a thread, not a window
import { closeSync, fsyncSync, openSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";
import { anchorOf, AUDIT_ANCHOR, AuditChain, type AuditEntry } from "../accounts/audit.ts";
import { type DatabaseReport, storedAmounts, storedVersions } from "../upkeep/report.ts";
import { BEGUN, type UpkeepMessage, type UpkeepTask } from "./backup.ts";
import { freeBytes } from "./connection.ts";

// A thread for one task that reads the whole database, so that no call waits for it.

const AUDIT_ENTRIES =
  'select number, project_id as "projectId", created_at as "createdAt", entry, hash from audit_entries order by number';

const OBJECTS = `
  select 'column ' || tables.name || '.' || columns.name
  from sqlite_schema as tables join pragma_table_info(tables.name) as columns
  where tables.type = 'table' and tables.name not like 'sqlite_%'
  union all select 'index ' || name from sqlite_schema where type = 'index' and sql is not null`;

const task = workerData as UpkeepTask;
const database = new DatabaseSync(task.path, { readOnly: !task.isAlone });
database.exec("pragma busy_timeout = 5000");
database.prepare("select count(*) from sqlite_schema").get();
send(BEGUN);
const result = task.kind === "copy" ? copy(task.to) : await inspect();
// First: with the answer, the files may be moved or removed.
database.close();
send(result);

function send(result: unknown): void {
  parentPort!.postMessage({ result } satisfies UpkeepMessage);
}

/** One read transaction, for which no write waits; later commits are not in the copy. */
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
    objects: column(OBJECTS).map(String),
    newestAt: typeof newest[0] === "number" ? newest[0] : null,
    audit: auditState(),
  };
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
