import { Pool, types } from "pg";
import type { Client } from "pg";

const INT8 = 20;

/** How many connections, how long one may be waited for, and how long one statement may take. */
export type PoolLimits = {
  readonly max: number;
  readonly waitMs: number;
  /** Null: without a limit, and so is a transaction that does nothing for a while. */
  readonly statementMs: number | null;
  /** How much longer than that a server is waited for that says nothing any more. */
  readonly silenceMs?: number;
};

/** A pool of connections that gives up on a silent or overloaded server, and gets over a lost one. */
export function createPool(
  databaseUrl: string,
  { max, waitMs, statementMs, silenceMs = 5_000 }: PoolLimits,
  client: typeof Client,
): Pool {
  const pool = new Pool({
    connectionString: databaseUrl,
    Client: client,
    application_name: "millrace",
    max,
    connectionTimeoutMillis: waitMs,
    ...(statementMs !== null && {
      idle_in_transaction_session_timeout: 30_000,
      statement_timeout: statementMs,
      // More than the server's own limit: this one is for a server that says nothing any more.
      query_timeout: statementMs + silenceMs,
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
