import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";
import { Client } from "pg";
import { descendantsOf } from "./proc.ts";
import { makeScratchDir } from "./scratch.ts";
import { startPostgres } from "./subjects/postgres.ts";

export const DATABASES = ["sqlite", "postgres"] as const;
export type DatabaseKind = (typeof DATABASES)[number];

/** An empty database, in the form the store takes. */
export type Place = { readonly dataDir: string; readonly databaseUrl: string | null };

/** What `npm run bench async` stores its runs in. */
export type BenchDatabase = {
  readonly kind: DatabaseKind;
  readonly version: string;
  readonly place: (name: string) => Promise<Place>;
  /** Its own processes; none where it lives inside the service. */
  readonly pids: () => number[];
  readonly stop: () => Promise<void>;
};

/** Looks at stored runs from outside the service. */
export type RunsView = {
  /** Resolves when every run has ended. */
  readonly allEnded: () => Promise<void>;
  /** How many async runs ended well. */
  readonly successes: () => Promise<number>;
  readonly close: () => Promise<void>;
};

const POLL_MS = 20;
const END_MS = 120_000;
const UNFINISHED = "select count(*) as count from (select 1 from runs where state in (0, 1) limit 1) as r";
const SUCCESSES = "select count(*) as count from runs where is_async = 1 and state = 2";

/** Opens the database of that kind, as durable as in production. */
export async function openDatabase(kind: DatabaseKind): Promise<BenchDatabase> {
  if (kind === "sqlite") {
    return {
      kind,
      version: `SQLite ${process.versions["sqlite"] ?? ""}`,
      place: () => Promise.resolve({ dataDir: makeScratchDir(), databaseUrl: null }),
      pids: () => [],
      stop: () => Promise.resolve(),
    };
  }
  const server = await startPostgres();
  return {
    kind,
    version: `Postgres ${server.version}`,
    place: async (name) => ({ dataDir: makeScratchDir(), databaseUrl: await server.create(name) }),
    pids: () => [server.pid, ...descendantsOf(server.pid)],
    stop: server.stop,
  };
}

/** Opens a view of a database that a service has made its tables in. */
export async function viewRuns({ dataDir, databaseUrl }: Place): Promise<RunsView> {
  const { count, close } = databaseUrl === null ? inSqlite(dataDir) : await inPostgres(databaseUrl);
  return {
    allEnded: async () => {
      const deadline = performance.now() + END_MS;
      while ((await count(UNFINISHED)) > 0) {
        if (performance.now() > deadline) throw new Error(`runs are unfinished after ${END_MS / 1000} s`);
        await pause(POLL_MS);
      }
    },
    successes: () => count(SUCCESSES),
    close,
  };
}

type Counting = {
  readonly count: (statement: string) => Promise<number>;
  readonly close: () => Promise<void>;
};

function inSqlite(dataDir: string): Counting {
  const database = new DatabaseSync(join(dataDir, "millrace.db"), { readOnly: true });
  return {
    count: (statement) => Promise.resolve(Number(database.prepare(statement).get()?.["count"])),
    close: () => Promise.resolve(database.close()),
  };
}

async function inPostgres(url: string): Promise<Counting> {
  const client = new Client({ connectionString: url });
  // If the server ends first, the next question says so.
  client.on("error", () => {});
  await client.connect();
  return {
    count: async (statement) => {
      const { rows } = await client.query<{ count: string }>(statement);
      return Number(rows[0]?.count);
    },
    close: () => client.end(),
  };
}
