import type { Client } from "pg";
import { anchorOf, AUDIT_ANCHOR, AuditChain, type AuditEntry } from "../accounts/audit.ts";
import type { NodeDetails } from "../../model/node.ts";
import { type DatabaseReport, storedAmounts, storedVersions } from "../upkeep/report.ts";
import { isUnreleased, UnreleasedFormat } from "../schema/unreleased.ts";
import { clientClass } from "./hosts.ts";
import { UnreachableError } from "./open.ts";

/** So many at a time: the log may be long. */
const AUDIT_STEP = 10_000;
const AUDIT_ENTRIES =
  'select number, project_id as "projectId", created_at as "createdAt", entry, hash from audit_entries' +
  " where number > $1 order by number limit $2";

/** As a client without type parsers reads it: large integers are text. */
type AuditRow = Omit<AuditEntry, "number" | "createdAt"> & {
  readonly number: string;
  readonly createdAt: string;
};

/** Says what is to be known of the database; its server looks after the rest. */
export async function inspectPostgres(databaseUrl: string): Promise<DatabaseReport> {
  const Connecting = clientClass(databaseUrl);
  const client = new Connecting({ connectionString: databaseUrl, connectionTimeoutMillis: 5_000 });
  // What breaks is told by the query that waits.
  client.on("error", () => {});
  try {
    await client.connect();
  } catch (error) {
    throw new UnreachableError(databaseUrl, error as Error);
  }
  try {
    const names = await client.query<{ name: string }>("select name from migrations order by name");
    const clock = await client.query<{ now: string }>(
      "select extract(epoch from clock_timestamp()) * 1000 as now",
    );
    const migrations = names.rows.map(({ name }) => name);
    if (isUnreleased(migrations)) throw new UnreleasedFormat("the database");
    const ask = async (query: string) => (await client.query(query)).rows as unknown[];
    return {
      problems: [],
      migrations,
      versions: await storedVersions(ask),
      amounts: await storedAmounts(ask),
      objects: await objects(client),
      newestAt: Number(clock.rows[0]?.now),
      audit: await auditState(client),
      nodes: await livingNodes(client),
    };
  } finally {
    await client.end();
  }
}

async function livingNodes(client: Client): Promise<NonNullable<DatabaseReport["nodes"]>> {
  const { rows } = await client.query<{ url: string; details: string }>(
    "select url, details from owners where url is not null and details is not null" +
      " and lease_until > extract(epoch from clock_timestamp()) * 1000 order by id limit 1000",
  );
  return rows.map(({ url, details }) => {
    const { name, home } = JSON.parse(details) as NodeDetails;
    return { name, url, home };
  });
}

async function objects(client: Client): Promise<string[]> {
  const columns = await client.query<{ name: string }>(
    "select 'column ' || table_name || '.' || column_name as name from information_schema.columns" +
      " where table_schema = current_schema()",
  );
  // Not those that a key brings with it.
  const indexes = await client.query<{ name: string }>(
    "select 'index ' || indexname as name from pg_indexes where schemaname = current_schema() and not exists" +
      " (select 1 from pg_constraint where conname = indexname)",
  );
  return [...columns.rows, ...indexes.rows].map(({ name }) => name);
}

async function auditState(client: Client): Promise<DatabaseReport["audit"]> {
  const anchor = await client.query<{ value: string }>(AUDIT_ANCHOR);
  const chain = new AuditChain(anchorOf(anchor.rows[0]?.value));
  for (let after = 0; ;) {
    const { rows } = await client.query<AuditRow>(AUDIT_ENTRIES, [after, AUDIT_STEP]);
    for (const { number, createdAt, ...rest } of rows) {
      after = Number(number);
      chain.add({ ...rest, number: after, createdAt: Number(createdAt) });
    }
    if (rows.length < AUDIT_STEP) return chain.state;
  }
}

/** The command that saves the database, without its password. */
export function dumpCommand(databaseUrl: string): string {
  // As text: the libraries of Postgres read several hosts in one address, and `URL` does not.
  const address = databaseUrl.replace(/^([a-z]+:\/\/[^:@/?#]*):[^/?#]*@/, "$1@");
  return `pg_dump --format=custom --file=millrace.dump '${address}'`;
}
