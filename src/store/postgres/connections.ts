import type { Kysely } from "kysely";
import type { Client, Pool, PoolClient } from "pg";
import type { Schema } from "../schema.ts";
import { createPool } from "./connection.ts";
import type { PoolLimits } from "./connection.ts";
import { createKysely } from "./dialect.ts";
import { clientClass } from "./hosts.ts";

/** The connections for one kind of call, made when they are first needed. */
export class Connections {
  readonly #databaseUrl: string;
  readonly #limits: PoolLimits;
  readonly #client: typeof Client;
  #opened: OpenPool | null = null;

  /** Those to the same database are given the same client: it knows which of several hosts is in use. */
  constructor(databaseUrl: string, limits: PoolLimits, client: typeof Client = clientClass(databaseUrl)) {
    this.#client = client;
    this.#databaseUrl = databaseUrl;
    this.#limits = limits;
  }

  get db(): Kysely<Schema> {
    this.#opened ??= new OpenPool(createPool(this.#databaseUrl, this.#limits, this.#client));
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
}

/** A pool, and the connections it has now. */
class OpenPool {
  readonly db: Kysely<Schema>;
  readonly #pool: Pool;
  readonly #clients = new Set<PoolClient>();
  #isAbandoned = false;

  constructor(pool: Pool) {
    this.#pool = pool;
    this.db = createKysely({
      options: pool.options,
      end: () => pool.end(),
      connect: async () => {
        const client = await pool.connect();
        if (!this.#isAbandoned) return client;
        const error = new Error("the connections were given up while this one was made");
        client.release(error);
        throw error;
      },
    });
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

/** Without a word to the server, which may never read it. */
function drop(client: PoolClient): void {
  (client as unknown as Client).connection.stream.destroy();
}
