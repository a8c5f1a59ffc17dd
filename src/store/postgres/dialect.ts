import { createHash } from "node:crypto";
import type pg from "pg";
import { DatabaseError } from "pg";
import { CamelCasePlugin, Kysely, PostgresAdapter, PostgresDialect } from "kysely";
import type { PostgresPool, PostgresPoolClient } from "kysely";
import type { Schema } from "../operation.ts";
import { afterRunning } from "../../kit/clock.ts";
import { beforeConnecting, isConnectionLost, isReadOnly, isSilence, ofQuery } from "./errors.ts";

/** Prepared statements per connection; a limit, in case an operation makes its statement from its input. */
const PREPARED_STATEMENTS = 256;
/** A statement with a list of ids has another text for each length, and is not worth preparing. */
const MAX_PARAMETERS = 64;

/** These are never prepared, so that they always work. */
const CONTROL = /^(?:begin|start|commit|rollback)\b/;

// The session has no statement of that name, or another client's: a pooler shares sessions.
const FOREIGN_STATES = new Set(["26000", "42P05"]);
// The columns of a table have changed since: another service has migrated the database.
const STALE_STATE = "0A000";
const STALE_WORDS = /cached plan/i;

/**
 * The names of prepared statements, which take the server half the time (0.7 ms instead of 1.6 to store a run). They
 * are derived from the text, so that they mean the same in every session.
 */
export class StatementNames {
  readonly #names = new Map<string, string>();
  #isKept: boolean;
  #round = 0;

  /** Nothing is prepared if sessions are shared: not every pooler tracks prepared statements. */
  constructor(isKept: boolean) {
    this.#isKept = isKept;
  }

  /** Undefined for a statement that is not prepared. */
  of(text: string, parameterCount: number): string | undefined {
    if (!this.#isKept || parameterCount > MAX_PARAMETERS || CONTROL.test(text)) return undefined;
    let name = this.#names.get(text);
    if (name === undefined && this.#names.size < PREPARED_STATEMENTS) {
      const hash = createHash("sha256").update(text).digest("hex").slice(0, 24);
      name = `millrace_${this.#round}_${hash}`;
      this.#names.set(text, name);
    }
    return name;
  }

  /** Handles the error of a statement: afterwards none is prepared, or all are prepared again. */
  note(error: unknown): void {
    if (isForeign(error)) this.#isKept = false;
    if (!isStale(error)) return;
    this.#round += 1;
    this.#names.clear();
  }
}

/** Whether a statement was not executed because the prepared one cannot be used: it may be retried at once. */
export function isLostStatement(error: unknown): boolean {
  return isForeign(error) || isStale(error);
}

function isForeign(error: unknown): boolean {
  return error instanceof DatabaseError && FOREIGN_STATES.has(error.code ?? "");
}

function isStale(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === STALE_STATE && STALE_WORDS.test(error.message);
}

/** A source of connections: the part of a pool that is used. */
type Lender = Pick<pg.Pool, "options"> & { connect(): Promise<pg.PoolClient>; end(): Promise<void> };

/** How sessions are used. */
export type SessionUse = {
  readonly names: StatementNames;
  /** Statements at the beginning of each transaction; null if sessions keep their settings. */
  readonly atBegin: string | null;
  /** How long to wait for an answer, while this process runs; null: forever. */
  readonly answerMs: number | null;
};

/** A timer that is later than this shows that this process was suspended. */
const LATE_MS = 250;

/** Kysely over `pg`, which never reuses a lost connection. */
export function createKysely(pool: Lender, use: SessionUse): Kysely<Schema> {
  const sound: PostgresPool = {
    connect: async () => {
      try {
        return watch(await connect(pool), use);
      } catch (error) {
        throw beforeConnecting(error);
      }
    },
    end: () => pool.end(),
    options: pool.options,
  };
  return new Kysely<Schema>({ dialect: new Dialect({ pool: sound }), plugins: [new CamelCasePlugin()] });
}

/** `pg` times out connecting with a timer: as long as the timer is late, the server may have answered. */
async function connect(pool: Lender): Promise<pg.PoolClient> {
  for (;;) {
    const dueAt = performance.now() + (pool.options.connectionTimeoutMillis ?? 0);
    try {
      return await pool.connect();
    } catch (error) {
      if (!isSilence(error) || performance.now() < dueAt + LATE_MS) throw error;
    }
  }
}

/** The caller of a migration holds a lock already, until its transaction ends. */
class Adapter extends PostgresAdapter {
  override async acquireMigrationLock(): Promise<void> {}
  override async releaseMigrationLock(): Promise<void> {}
}

class Dialect extends PostgresDialect {
  override createAdapter(): PostgresAdapter {
    return new Adapter();
  }
}

const BEGIN = /^(?:begin|start transaction)\b/;

/** When each connection was first lent. */
const lentAt = new WeakMap<pg.PoolClient, number>();
/** How long a read-only connection is still used: a new one for each refused write would be too expensive. */
const READ_ONLY_MS = 1_000;

/** A session may stay read-only after its server was promoted, or belong to a server that became a standby. */
function isReadOnlyForLong(client: pg.PoolClient, error: unknown): boolean {
  return isReadOnly(error) && performance.now() - (lentAt.get(client) ?? 0) > READ_ONLY_MS;
}

/**
 * Kysely returns every connection to the pool as usable. This one remembers that it is lost: no rollback waits for a
 * silent server, and the pool closes it.
 */
function watch(client: pg.PoolClient, { names, atBegin, answerMs }: SessionUse): PostgresPoolClient {
  let loss: Error | null = null;
  if (!lentAt.has(client)) lentAt.set(client, performance.now());
  const onError = (error: Error) => {
    loss ??= error;
  };
  client.on("error", onError);
  const query = async (sql: string, parameters: readonly unknown[]): Promise<pg.QueryResult> => {
    if (loss) throw ofQuery(loss);
    let silence: Error | null = null;
    const giveUp = (): void => {
      silence = new Error("Query read timeout");
      drop(client);
    };
    const stopWaiting = answerMs === null ? null : afterRunning(answerMs, giveUp);
    try {
      // Several statements in one message.
      if (atBegin !== null && BEGIN.test(sql)) return await client.query(`${sql}; ${atBegin}`);
      const name = names.of(sql, parameters.length);
      return await client.query({ text: sql, values: [...parameters], ...(name !== undefined && { name }) });
    } catch (caught) {
      // The reason why the connection was dropped.
      const error: unknown = silence ?? caught;
      ofQuery(error);
      names.note(error);
      if (isConnectionLost(error) || isReadOnlyForLong(client, error)) loss = error as Error;
      throw error;
    } finally {
      stopWaiting?.();
    }
  };
  return {
    // Cursors are only for streamed queries, and there are none.
    query: query as unknown as PostgresPoolClient["query"],
    release: () => {
      client.off("error", onError);
      client.release(loss ?? undefined);
    },
  };
}

/** Closes the socket without a message to the server, which may never read it. */
export function drop(client: pg.PoolClient): void {
  (client as unknown as pg.Client).connection.stream.destroy();
}
