import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { Client } from "pg";
import { afterAll, inject } from "vitest";
import { DATABASE_FILE } from "../../src/store/upkeep/whole-database.ts";
import { blankPostgres, prepareSqlite } from "./blank-schema.ts";

/** Both databases: a suite that touches the store runs on each. */
export const DATABASE_KINDS = ["sqlite", "postgres"] as const;
export type DatabaseKind = (typeof DATABASE_KINDS)[number];

/**
 * For what meets the store by the same code on both: one of them in `npm test`, both with `npm run test:thorough` and
 * `npm run test:faults`. The store itself is always tried on both.
 */
export function triedKinds(one: DatabaseKind): readonly DatabaseKind[] {
  return process.env["MILLRACE_BOTH_DATABASES"] === "true" ? DATABASE_KINDS : [one];
}

/** A database, in the form `openStore` takes. */
export type TestDatabase = { readonly databaseUrl: string | null; readonly dataDir: string };

/** What a test begins with. */
type TestDatabases = {
  /** One of this release, which holds nothing. */
  fresh(kind: DatabaseKind): Promise<TestDatabase>;
  /** One without any table, for tests of what makes them. */
  empty(kind: DatabaseKind): Promise<TestDatabase>;
  /** One that holds the same as another, which nobody uses by now. */
  copy(of: TestDatabase): Promise<TestDatabase>;
};

/**
 * Databases for the tests of one file, all gone after its last test. Postgres is the server at
 * MILLRACE_TEST_POSTGRES_URL, or the one that all test files share (`shared-postgres.ts`).
 */
export function testDatabases(): TestDatabases {
  const dataDirs: string[] = [];
  const names: string[] = [];

  afterAll(async () => {
    for (const dataDir of dataDirs) rmSync(dataDir, { recursive: true, force: true });
    for (const name of names) await administer(`drop database if exists ${name} with (force)`);
  });

  const newFolder = (): string => {
    const dataDir = mkdtempSync(join(tmpdir(), "millrace-data-"));
    dataDirs.push(dataDir);
    return dataDir;
  };
  const newPostgres = async (like: string): Promise<string> => {
    const name = `millrace_test_${randomBytes(6).toString("hex")}`;
    names.push(name);
    await administer(`create database ${name} ${like}`);
    const own = new URL((await server()).url);
    own.pathname = `/${name}`;
    return own.href;
  };
  return {
    fresh: async (kind) => {
      const dataDir = newFolder();
      if (kind === "postgres") return { databaseUrl: await newPostgres((await server()).blank), dataDir };
      await prepareSqlite(dataDir);
      return { databaseUrl: null, dataDir };
    },
    empty: async (kind) => {
      const databaseUrl = kind === "postgres" ? await newPostgres((await server()).empty) : null;
      return { databaseUrl, dataDir: newFolder() };
    },
    copy: async (of) => {
      const dataDir = newFolder();
      if (of.databaseUrl === null)
        copyFileSync(join(of.dataDir, DATABASE_FILE), join(dataDir, DATABASE_FILE));
      const template = of.databaseUrl && `template ${new URL(of.databaseUrl).pathname.slice(1)}`;
      return { databaseUrl: template && (await newPostgres(template)), dataDir };
    },
  };
}

/** The tests' Postgres as this process knows it. */
type Server = {
  readonly url: string;
  /** Makes and drops databases, for all test files of this process: a connection takes as long as to make one. */
  readonly administrator: Client;
  /** What new databases are copies of, and how they are made. */
  readonly blank: string;
  readonly empty: string;
};

let opening: Promise<Server> | null = null;

async function server(): Promise<Server> {
  opening ??= openServer();
  return await opening;
}

async function openServer(): Promise<Server> {
  const given = process.env["MILLRACE_TEST_POSTGRES_URL"];
  const url = given || (await sharedUrl());
  const administrator = new Client({ connectionString: url });
  // It ends with the server, or with this process, which it must not keep.
  administrator.on("error", () => {});
  await administrator.connect();
  (administrator as unknown as { unref(): void }).unref();
  // A server of somebody else's keeps nothing, and may be an old one.
  if (given) return { url, administrator, blank: "", empty: "" };
  const copy = (template: string): string => `template ${template} strategy file_copy`;
  const blank = copy(await blankPostgres(administrator, url));
  return { url, administrator, blank, empty: copy("template1") };
}

/** The address of the server that all test files share; the first who asks has it started. */
async function sharedUrl(): Promise<string> {
  const socket = connect(inject("postgresSocket"));
  await once(socket, "connect");
  const answer = JSON.parse(await text(socket)) as { url: string } | { failure: string };
  if ("failure" in answer) throw new Error(answer.failure);
  return answer.url;
}

async function administer(statement: string): Promise<void> {
  const { administrator } = await server();
  await administrator.query(statement);
}
