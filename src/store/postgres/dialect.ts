import { CamelCasePlugin, Kysely, PostgresDialect } from "kysely";
import type { PostgresPool, PostgresPoolClient } from "kysely";
import type pg from "pg";
import type { Schema } from "../schema.ts";
import { beforeConnecting, isConnectionLost, isReadOnly, ofQuery } from "./errors.ts";

/** Where connections come from: what is used of a pool. */
type Lender = Pick<pg.Pool, "options"> & { connect(): Promise<pg.PoolClient>; end(): Promise<void> };

/** Kysely over `pg`, without connections that are lost. */
export function createKysely(pool: Lender): Kysely<Schema> {
  const sound: PostgresPool = {
    connect: async () => {
      try {
        return watch(await pool.connect());
      } catch (error) {
        throw beforeConnecting(error);
      }
    },
    end: () => pool.end(),
    options: pool.options,
  };
  return new Kysely<Schema>({
    dialect: new PostgresDialect({ pool: sound }),
    plugins: [new CamelCasePlugin()],
  });
}

/** Statements that Postgres keeps parsed, per connection; a bound, in case one is made from its input. */
const PREPARED_STATEMENTS = 256;
/** A statement with a list of ids has a text of its own for each length, and is not worth keeping. */
const MAX_PARAMETERS = 64;
const statementNames = new Map<string, string>();

/**
 * The same name for the same text: a prepared statement costs the server half as much (storing one run 0.7 ms
 * instead of 1.6). Undefined once there are enough of them: those come parsed anew each time.
 */
function statementName(text: string, parameterCount: number): string | undefined {
  if (parameterCount > MAX_PARAMETERS) return undefined;
  let name = statementNames.get(text);
  if (name === undefined && statementNames.size < PREPARED_STATEMENTS) {
    name = `millrace_${statementNames.size}`;
    statementNames.set(text, name);
  }
  return name;
}

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
function watch(client: pg.PoolClient): PostgresPoolClient {
  let loss: Error | null = null;
  if (!lentAt.has(client)) lentAt.set(client, performance.now());
  const onError = (error: Error) => {
    loss ??= error;
  };
  client.on("error", onError);
  const query = async (sql: string, parameters: readonly unknown[]): Promise<pg.QueryResult> => {
    if (loss) throw ofQuery(loss);
    try {
      const name = statementName(sql, parameters.length);
      return await client.query({ text: sql, values: [...parameters], ...(name !== undefined && { name }) });
    } catch (error) {
      ofQuery(error);
      if (isConnectionLost(error) || isReadOnlyForLong(client, error)) loss = error as Error;
      throw error;
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
