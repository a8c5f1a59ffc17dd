import { type Client, Pool, type PoolClient, types } from "pg";
import type { Kysely } from "kysely";
import type { Schema } from "../operation.ts";
import { createKysely, drop, StatementNames } from "./dialect.ts";
import { clientClass } from "./hosts.ts";

const INT8 = 20;

/**
 * How long the server keeps an idle transaction, whose connection or service may be dead: its locks block other
 * services. Shorter than their time limits, so that a suspended service causes no refusals there.
 */
export const IDLE_MS = 3_000;

/** How many connections there are, how long to wait for one, and how long a statement may take. */
export type PoolLimits = {
  readonly max: number;
  readonly waitMs: number;
  /** Null: without a limit, also for idle transactions. */
  readonly statementMs: number | null;
  /** How long to wait for an answer, which is longer than that: by 5 s unless given. */
  readonly answerMs?: number;
};

/** How long to wait on one dead connection; if none is answered, the breaker drops all half a second earlier. */
export const ANSWER_MS = 4_750;

/** A pool of connections with time limits, which survives the loss of connections. */
export function createPool(
  { databaseUrl, client, keepsSettings }: Target,
  { max, waitMs, statementMs }: PoolLimits,
): Pool {
  const pool = new Pool({
    connectionString: databaseUrl,
    Client: client,
    application_name: "millrace",
    max,
    connectionTimeoutMillis: waitMs,
    ...(statementMs !== null &&
      keepsSettings && { idle_in_transaction_session_timeout: IDLE_MS, statement_timeout: statementMs }),
    keepAlive: true,
    types: {
      // Our bigints are milliseconds and counts, far below 2^53.
      getTypeParser: (oid: number, format?: "text" | "binary") =>
        oid === INT8 ? Number : types.getTypeParser(oid, format),
    },
  });
  // An idle connection that breaks has left the pool. Without a listener, the event would end the process.
  pool.on("error", () => {});
  // The same for a connection that ends as it is made, before its user has it: the user's first query fails.
  pool.on("connect", (client) => client.on("error", () => {}));
  return pool;
}

/** A database, and what all connections to it share. */
type Target = {
  readonly databaseUrl: string;
  /** Knows which of several hosts is in use. */
  readonly client: typeof Client;
  readonly names: StatementNames;
  /** False if a pooler lends sessions for one transaction each: then every transaction sets the time limits. */
  readonly keepsSettings: boolean;
};

/** The target of connections; they share what they learn about it. */
export function targetOf(databaseUrl: string, keepsSettings = true): Target {
  const names = new StatementNames(keepsSettings);
  return { databaseUrl, client: clientClass(databaseUrl), names, keepsSettings };
}

/** The connections for one kind of call, opened when they are first needed. */
export class Connections {
  readonly #open: () => ReturnType<typeof openPool>;
  #opened: ReturnType<typeof openPool> | null = null;

  constructor(target: Target, limits: PoolLimits) {
    this.#open = () => openPool(target, limits);
  }

  get db(): Kysely<Schema> {
    this.#opened ??= this.#open();
    return this.#opened.db;
  }

  /** Drops all connections, with the calls that wait for their answers; the next call opens a new pool. */
  abandon(): void {
    this.#opened?.abandon();
    this.#opened = null;
  }

  async close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = null;
    await opened?.db.destroy();
  }
}

function openPool(target: Target, limits: PoolLimits) {
  const { names, keepsSettings } = target;
  const { statementMs } = limits;
  const pool = createPool(target, limits);
  const clients = new Set<PoolClient>();
  let isAbandoned = false;
  const lender = {
    options: pool.options,
    end: () => pool.end(),
    connect: async () => {
      const client = await pool.connect();
      if (!isAbandoned) return client;
      const error = new Error("the connections were given up while this one was made");
      client.release(error);
      throw error;
    },
  };
  pool.on("connect", (client) => {
    clients.add(client);
    // It would never be closed, and the server would keep it.
    if (isAbandoned) drop(client);
  });
  pool.on("remove", (client) => clients.delete(client));
  const settings = `set local statement_timeout = ${statementMs}; set local idle_in_transaction_session_timeout = ${IDLE_MS}`;
  const atBegin = keepsSettings || statementMs === null ? null : settings;
  // Longer than the server's own limit, for a server that does not answer.
  const answerMs = statementMs === null ? null : (limits.answerMs ?? statementMs + 5_000);
  return {
    db: createKysely(lender, { names, atBegin, answerMs }),
    abandon: () => {
      isAbandoned = true;
      for (const client of clients) drop(client);
      // Not through Kysely, which would lose connections that are being made. Calls that wait for a connection time out.
      pool.end().catch(() => {});
    },
  };
}
