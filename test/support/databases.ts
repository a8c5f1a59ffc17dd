import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { Client } from "pg";
import { afterAll, inject } from "vitest";

/** Both databases: a suite that touches the store runs on each. */
export const DATABASE_KINDS = ["sqlite", "postgres"] as const;
export type DatabaseKind = (typeof DATABASE_KINDS)[number];

/** An empty database, in the form `openStore` takes. */
export type TestDatabase = { readonly databaseUrl: string | null; readonly dataDir: string };

/**
 * Empty databases for the tests of one file, all gone after its last test. Postgres is the server at
 * MILLRACE_TEST_POSTGRES_URL, or the one that all test files share (`shared-postgres.ts`).
 */
export function testDatabases(): { fresh(kind: DatabaseKind): Promise<TestDatabase> } {
  const dataDirs: string[] = [];
  const names: string[] = [];
  let server: Promise<string> | null = null;

  afterAll(async () => {
    for (const dataDir of dataDirs) rmSync(dataDir, { recursive: true, force: true });
    const url = await server;
    if (url === null) return;
    for (const name of names) await administer(url, `drop database if exists ${name} with (force)`);
  });

  return {
    fresh: async (kind) => {
      const dataDir = mkdtempSync(join(tmpdir(), "millrace-data-"));
      dataDirs.push(dataDir);
      if (kind === "sqlite") return { databaseUrl: null, dataDir };
      server ??= postgresUrl();
      const name = `millrace_test_${randomBytes(6).toString("hex")}`;
      await administer(await server, `create database ${name}`);
      names.push(name);
      const url = new URL(await server);
      url.pathname = `/${name}`;
      return { databaseUrl: url.href, dataDir };
    },
  };
}

/** The address of the tests' Postgres; the first who asks has it started. */
async function postgresUrl(): Promise<string> {
  const given = process.env["MILLRACE_TEST_POSTGRES_URL"];
  if (given) return given;
  const socket = connect(inject("postgresSocket"));
  await once(socket, "connect");
  const answer = JSON.parse(await text(socket)) as { url: string } | { failure: string };
  if ("failure" in answer) throw new Error(answer.failure);
  return answer.url;
}

async function administer(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
