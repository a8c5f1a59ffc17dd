import type { Kysely } from "kysely";
import type { Client, Pool, PoolClient } from "pg";
import type { Schema } from "../schema.ts";
import { answerLimit, createPool, transactionLimits } from "./connection.ts";
import type { PoolLimits } from "./connection.ts";
import { createKysely, drop } from "./dialect.ts";
import type { SessionUse } from "./dialect.ts";
import { clientClass } from "./hosts.ts";
import { StatementNames } from "./statement-names.ts";

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
