import type pg from "pg";
import { createHash } from "node:crypto";
import { DatabaseError } from "pg";
import { CamelCasePlugin, Kysely, PostgresAdapter, PostgresDialect } from "kysely";
import type { PostgresPool, PostgresPoolClient } from "kysely";
import type { Schema } from "../schema/schema.ts";
import { afterRunning } from "../../kit/clock.ts";
import { beforeConnecting, isConnectionLost, isReadOnly, isSilence, ofQuery } from "./errors.ts";

/** Statements that Postgres keeps parsed, per connection; a bound, in case one is made from its input. */
const PREPARED_STATEMENTS = 256;
/** A statement with a list of ids has a text of its own for each length, and is not worth keeping. */
const MAX_PARAMETERS = 64;

/** These have to work whatever became of others. */
const CONTROL = /^(?:begin|start|commit|rollback)\b/;

// The session has no statement of that name, or has one that somebody else made: a pooler hands sessions around.
const FOREIGN_STATES = new Set(["26000", "42P05"]);
// The tables have other columns than when it was parsed: another service has migrated the database.
const STALE_STATE = "0A000";
const STALE_WORDS = /cached plan/i;

/**
 * Under which names Postgres keeps statements parsed: a prepared one costs the server half as much (storing one run
 * 0.7 ms instead of 1.6). A name follows from the text, so that no name ever stands for two texts, in whatever session
 * it was prepared and by whichever service.
 */
export class StatementNames {
  readonly #names = new Map<string, string>();
  #isKept: boolean;
  #round = 0;

  /** None is kept where sessions are lent: not every pooler knows which one has which. */
  constructor(isKept: boolean) {
    this.#isKept = isKept;
  }

  /** Undefined for one that is parsed anew each time. */
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

  /** Learns from what became of a statement. From then on none is kept, or all are parsed again. */
  note(error: unknown): void {
    if (isForeign(error)) this.#isKept = false;
    if (!isStale(error)) return;
    this.#round += 1;
    this.#names.clear();
  }
}

/** Whether a statement was not executed because the one that was kept is of no use: it may be tried again at once. */
export function isLostStatement(error: unknown): boolean {
  return isForeign(error) || isStale(error);
}

function isForeign(error: unknown): boolean {
  return error instanceof DatabaseError && FOREIGN_STATES.has(error.code ?? "");
}

function isStale(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === STALE_STATE && STALE_WORDS.test(error.message);
}

/** Where connections come from: what is used of a pool. */
type Lender = Pick<pg.Pool, "options"> & { connect(): Promise<pg.PoolClient>; end(): Promise<void> };

/** How sessions are used. */
export type SessionUse = {
  readonly names: StatementNames;
  /** Statements that each transaction begins with; none where the session keeps its settings. */
  readonly atBegin: string | null;
  /** How long an answer is waited for while this process runs; null: for ever. */
  readonly answerMs: number | null;
};

/** A timer that is later than this says that the process itself stood still. */
const LATE_MS = 250;

/** Kysely over `pg`, without connections that are lost. */
export function createKysely(
  pool: Lender,
  use: SessionUse = { names: new StatementNames(false), atBegin: null, answerMs: null },
): Kysely<Schema> {
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
  return new Kysely<Schema>({
    dialect: new Dialect({ pool: sound }),
    plugins: [new CamelCasePlugin()],
  });
}

/** `pg` gives up on a connection by a timer: if that came late, the server may have answered long ago. */
async function connect(pool: Lender): Promise<pg.PoolClient> {
  const dueAt = performance.now() + (pool.options.connectionTimeoutMillis ?? 0);
  try {
    return await pool.connect();
  } catch (error) {
    if (!isSilence(error) || performance.now() < dueAt + LATE_MS) throw error;
    return await pool.connect();
  }
}

/** Whoever migrates holds the lock already, for as long as its transaction lasts. */
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
/** One that is read-only is used so long all the same: a new one for each write that is refused would be costly. */
const READ_ONLY_MS = 1_000;

/** A session may stay read-only when its server is not any more, or lead to one that is a standby now. */
function isReadOnlyForLong(client: pg.PoolClient, error: unknown): boolean {
  return isReadOnly(error) && performance.now() - (lentAt.get(client) ?? 0) > READ_ONLY_MS;
}

/**
 * Kysely hands every connection back as sound. This one remembers that it is lost: the rollback that follows
 * does not wait on a silent server a second time, and the pool ends it instead of lending it again.
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
      // Several statements at once, in one message.
      if (atBegin !== null && BEGIN.test(sql)) return await client.query(`${sql}; ${atBegin}`);
      const name = names.of(sql, parameters.length);
      return await client.query({ text: sql, values: [...parameters], ...(name !== undefined && { name }) });
    } catch (caught) {
      // Why the connection was dropped, not that it was.
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
    // Only streamed queries come as cursors, and there are none.
    query: query as unknown as PostgresPoolClient["query"],
    release: () => {
      client.off("error", onError);
      client.release(loss ?? undefined);
    },
  };
}

/** Without a word to the server, which may never read it. */
export function drop(client: pg.PoolClient): void {
  (client as unknown as pg.Client).connection.stream.destroy();
}
