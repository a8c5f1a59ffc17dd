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

/** All columns and indexes, without the indexes of keys. */
const OBJECTS = `
  select 'column ' || table_name || '.' || column_name from information_schema.columns
  where table_schema = current_schema()
  union all
  select 'index ' || indexname from pg_indexes where schemaname = current_schema()
    and not exists (select 1 from pg_constraint where conname = indexname)`;

/** As a client without type parsers reads it: large integers are text. */
type AuditRow = Omit<AuditEntry, "number" | "createdAt"> & Readonly<{ number: string; createdAt: string }>;

/** Inspects a database, except its files, which its server checks. */
export async function inspectPostgres(databaseUrl: string): Promise<DatabaseReport> {
  const Connecting = clientClass(databaseUrl);
  const client = new Connecting({ connectionString: databaseUrl, connectionTimeoutMillis: 5_000 });
  // A connection error is reported by the pending query.
  client.on("error", () => {});
  try {
    await client.connect();
  } catch (error) {
    throw new UnreachableError(databaseUrl, error as Error);
  }
  try {
    const ask = async (query: string) => (await client.query(query)).rows as unknown[];
    const migrations = await column(client, "select name from migrations order by name");
    if (isUnreleased(migrations)) throw new UnreleasedFormat("the database");
    const [now] = await column(client, "select extract(epoch from clock_timestamp()) * 1000");
    return {
      problems: [],
      migrations,
      versions: await storedVersions(ask),
      amounts: await storedAmounts(ask),
      objects: await column(client, OBJECTS),
      newestAt: Number(now),
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

/** The values of the first column. */
async function column(client: Client, text: string): Promise<string[]> {
  const { rows } = await client.query<[string]>({ text, rowMode: "array" });
  return rows.map(([value]) => value);
}

async function auditState(client: Client): Promise<DatabaseReport["audit"]> {
  const [anchor] = await column(client, AUDIT_ANCHOR);
  const chain = new AuditChain(anchorOf(anchor));
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
