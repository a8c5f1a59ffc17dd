import { Client } from "pg";
import type { DatabaseReport } from "../database-report.ts";
import { UnreachableError } from "./open.ts";

/** Says what is to be known of the database; its server looks after the rest. */
export async function inspectPostgres(databaseUrl: string): Promise<DatabaseReport> {
  const client = new Client({ connectionString: databaseUrl, connectionTimeoutMillis: 5_000 });
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
    return {
      problems: [],
      migrations: names.rows.map(({ name }) => name),
      newestAt: Number(clock.rows[0]?.now),
    };
  } finally {
    await client.end();
  }
}

/** The command that saves the database, without its password. */
export function dumpCommand(databaseUrl: string): string {
  const url = new URL(databaseUrl);
  url.password = "";
  return `pg_dump --format=custom --file=millrace.dump '${url.href}'`;
}
