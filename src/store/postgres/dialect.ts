import { CamelCasePlugin, Kysely, PostgresDialect } from "kysely";
import type { PostgresPool, PostgresPoolClient } from "kysely";
import type pg from "pg";
import type { Schema } from "../schema.ts";
import { isConnectionLost } from "./errors.ts";

/** Kysely over `pg`, without connections that are lost. */
export function createKysely(pool: pg.Pool): Kysely<Schema> {
  const sound: PostgresPool = {
    connect: async () => watch(await pool.connect()),
    end: () => pool.end(),
    options: pool.options,
  };
  return new Kysely<Schema>({
    dialect: new PostgresDialect({ pool: sound }),
    plugins: [new CamelCasePlugin()],
  });
}

/**
 * Kysely hands every connection back as sound. This one remembers that it is lost: the rollback that follows
 * does not wait on a silent server a second time, and the pool ends it instead of lending it again.
 */
function watch(client: pg.PoolClient): PostgresPoolClient {
  let loss: Error | null = null;
  const onError = (error: Error) => {
    loss ??= error;
  };
  client.on("error", onError);
  const query = async (sql: string, parameters: readonly unknown[]): Promise<pg.QueryResult> => {
    if (loss) throw loss;
    try {
      return await client.query(sql, [...parameters]);
    } catch (error) {
      if (isConnectionLost(error)) loss = error as Error;
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
