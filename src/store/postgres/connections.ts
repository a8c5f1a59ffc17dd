import type { Kysely } from "kysely";
import type { Client, Pool, PoolClient } from "pg";
import type { Schema } from "../schema.ts";
import { createPool } from "./connection.ts";
import type { PoolLimits } from "./connection.ts";
import { createKysely } from "./dialect.ts";
import { clientClass } from "./hosts.ts";

type Opened = { readonly db: Kysely<Schema>; readonly clients: ReadonlySet<PoolClient> };

/** The connections for one kind of call, made when they are first needed. */
export class Connections {
  readonly #databaseUrl: string;
  readonly #limits: PoolLimits;
  readonly #client: typeof Client;
  #opened: Opened | null = null;

  /** Those to the same database are given the same client: it knows which of several hosts is in use. */
  constructor(databaseUrl: string, limits: PoolLimits, client: typeof Client = clientClass(databaseUrl)) {
    this.#client = client;
    this.#databaseUrl = databaseUrl;
    this.#limits = limits;
  }

  get db(): Kysely<Schema> {
    this.#opened ??= open(createPool(this.#databaseUrl, this.#limits, this.#client));
    return this.#opened.db;
  }

  /**
   * Drops all of them and what waits for their answers; the next call makes a new one. A server that fell silent may
   * be back while these would wait for ever: their packets were lost, or it was another server.
   */
  abandon(): void {
    const opened = this.#opened;
    this.#opened = null;
    if (!opened) return;
    for (const client of opened.clients) (client as unknown as Client).connection.stream.destroy();
    // What still waits for a connection of it runs out of time by itself.
    opened.db.destroy().catch(() => {});
  }

  async close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = null;
    await opened?.db.destroy();
  }
}

function open(pool: Pool): Opened {
  const clients = new Set<PoolClient>();
  pool.on("connect", (client) => clients.add(client));
  pool.on("remove", (client) => clients.delete(client));
  return { db: createKysely(pool), clients };
}
