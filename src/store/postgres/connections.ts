import { Pool, types } from "pg";
import type { Client, PoolClient } from "pg";
import type { Kysely } from "kysely";
import type { Schema } from "../schema/schema.ts";
import { createKysely, drop, StatementNames } from "./dialect.ts";
import type { SessionUse } from "./dialect.ts";
import { clientClass } from "./hosts.ts";

const INT8 = 20;

/**
 * So long the server keeps a transaction of ours that says nothing: its connection has died, or its service stands still.
 * Meanwhile it may hold the row of a lease, which has to be renewed in time, and others' writes wait for what it holds: less
 * than callers of other services have, so that a service that stands still has none of them refused.
 */
export const IDLE_MS = 3_000;

/** How many connections, how long one may be waited for, and how long one statement may take. */
export type PoolLimits = {
  readonly max: number;
  readonly waitMs: number;
  /** Null: without a limit, and so is a transaction that does nothing for a while. */
  readonly statementMs: number | null;
  /** How long a server is waited for that says nothing any more: longer than that; 5 s longer unless given. */
  readonly answerMs?: number;
};

/**
 * So long an answer is waited for that a caller, or the next sign of life, waits for too. A connection may die alone,
 * while all others are answered; when all are silent the breaker gives them up, which takes it half a second less.
 */
export const ANSWER_MS = 4_750;

/** How long a statement's answer is waited for: more than the server's own limit, for a server that says nothing. */
function answerLimit({ statementMs, answerMs }: PoolLimits): number | null {
  return statementMs === null ? null : (answerMs ?? statementMs + 5_000);
}

/** The limits of a pool as the statements that set them for one transaction. */
function transactionLimits({ statementMs }: PoolLimits): string | null {
  if (statementMs === null) return null;
  return (
    `set local statement_timeout = ${statementMs}; ` +
    `set local idle_in_transaction_session_timeout = ${IDLE_MS}`
  );
}

/** A pool of connections that gives up on a silent or overloaded server, and gets over a lost one. */
export function createPool(
  databaseUrl: string,
  { max, waitMs, statementMs }: PoolLimits,
  client: typeof Client,
  keepsSettings = true,
): Pool {
  const pool = new Pool({
    connectionString: databaseUrl,
    Client: client,
    application_name: "millrace",
    max,
    connectionTimeoutMillis: waitMs,
    ...(statementMs !== null &&
      keepsSettings && {
        idle_in_transaction_session_timeout: IDLE_MS,
        statement_timeout: statementMs,
      }),
    keepAlive: true,
    types: {
      // Our bigints are milliseconds and counts, far below 2^53.
      getTypeParser: (oid: number, format?: "text" | "binary") =>
        oid === INT8 ? Number : types.getTypeParser(oid, format),
    },
  });
  // An idle connection that breaks has left the pool by now. Unheard, the event would end the process.
  pool.on("error", () => {});
  // The same of one that is ended as it comes: the server's last word may be read in the same piece as its first, before
  // whoever asked for the connection has it. Its first query tells that it is of no use.
  pool.on("connect", (client) => client.on("error", () => {}));
  return pool;
}

/** A database, and what all connections to it have in common. */
type Reach = {
  readonly databaseUrl: string;
  /** Knows which of several hosts is in use. */
  readonly client: typeof Client;
  readonly names: StatementNames;
  /** False where a pooler lends sessions for a transaction each: limits of time are set in every one. */
  readonly keepsSettings: boolean;
};

/** The way to a database; what its connections learn, all of them know. */
export function reachOf(databaseUrl: string, keepsSettings = true): Reach {
  return {
    databaseUrl,
    client: clientClass(databaseUrl),
    names: new StatementNames(keepsSettings),
    keepsSettings,
  };
}

/** The connections for one kind of call, made when they are first needed. */
export class Connections {
  readonly #reach: Reach;
  readonly #limits: PoolLimits;
  #opened: OpenPool | null = null;

  constructor(reach: Reach, limits: PoolLimits) {
    this.#reach = reach;
    this.#limits = limits;
  }

  get db(): Kysely<Schema> {
    this.#opened ??= this.#open();
    return this.#opened.db;
  }

  /**
   * Drops all of them and what waits for their answers; the next call makes a new one. A server that fell silent may
   * be back while these would wait for ever: their packets were lost, or it was another server.
   */
  abandon(): void {
    this.#opened?.abandon();
    this.#opened = null;
  }

  async close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = null;
    await opened?.db.destroy();
  }

  #open(): OpenPool {
    const { databaseUrl, client, names, keepsSettings } = this.#reach;
    const pool = createPool(databaseUrl, this.#limits, client, keepsSettings);
    const atBegin = keepsSettings ? null : transactionLimits(this.#limits);
    return new OpenPool(pool, { names, atBegin, answerMs: answerLimit(this.#limits) });
  }
}

/** A pool, and the connections it has now. */
class OpenPool {
  readonly db: Kysely<Schema>;
  readonly #pool: Pool;
  readonly #clients = new Set<PoolClient>();
  #isAbandoned = false;

  constructor(pool: Pool, use: SessionUse) {
    this.#pool = pool;
    const lender = {
      options: pool.options,
      end: () => pool.end(),
      connect: async () => {
        const client = await pool.connect();
        if (!this.#isAbandoned) return client;
        const error = new Error("the connections were given up while this one was made");
        client.release(error);
        throw error;
      },
    };
    this.db = createKysely(lender, use);
    pool.on("connect", (client) => {
      this.#clients.add(client);
      // Nobody would ever let go of it: the server would keep it for good.
      if (this.#isAbandoned) drop(client);
    });
    pool.on("remove", (client) => this.#clients.delete(client));
  }

  abandon(): void {
    this.#isAbandoned = true;
    for (const client of this.#clients) drop(client);
    // Not by Kysely, which would lose what is being connected. What still waits for a connection runs out of time.
    this.#pool.end().catch(() => {});
  }
}
