import { Pool, types } from "pg";
import type { Client } from "pg";

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
export function answerLimit({ statementMs, answerMs }: PoolLimits): number | null {
  return statementMs === null ? null : (answerMs ?? statementMs + 5_000);
}

/** The limits of a pool as the statements that set them for one transaction. */
export function transactionLimits({ statementMs }: PoolLimits): string | null {
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
