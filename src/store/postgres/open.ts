import { sql } from "kysely";
import type { Kysely } from "kysely";
import { migrate } from "../migrate.ts";
import { POSTGRES_TYPES } from "../migrations/column-types.ts";
import { AppError } from "../../model/errors.ts";
import { HEAVY_READ_MS } from "../operation.ts";
import type { Backend, Session } from "../operation.ts";
import { operationNamed } from "../operations.ts";
import type { Schema } from "../schema.ts";
import { createPool } from "./connection.ts";
import type { PoolLimits } from "./connection.ts";
import { createKysely } from "./dialect.ts";
import { isOfStorage, isTimeout, translateError } from "./errors.ts";
import { USAGE_SLOT, columnWriter } from "./write-columns.ts";

const RETRY = { headers: { "retry-after": "5" } };

/** Postgres could not be used at the start; the message names the server, never the password. */
export class UnreachableError extends Error {
  constructor(databaseUrl: string, cause: Error) {
    const { hostname, port, pathname } = new URL(databaseUrl);
    const address = `${decodeURIComponent(hostname)}${port && `:${port}`}${pathname}`;
    // Where a name has several addresses Node reports all their failures at once, with no message.
    const reason = cause instanceof AggregateError ? String(cause.errors[0]) : cause.message;
    super(`cannot use the Postgres database ${address}: ${reason}`, { cause });
    this.name = "UnreachableError";
  }
}

/** Reads that take long have connections of their own: those for all else are never taken up by them. */
const HEAVY: PoolLimits = { max: 2, waitMs: HEAVY_READ_MS, statementMs: HEAVY_READ_MS };

/** Opens a database on a Postgres server; each write is a transaction of its own. */
export async function openPostgres(databaseUrl: string): Promise<Backend> {
  const db = createKysely(createPool(databaseUrl));
  let heavy: Kysely<Schema> | null = null;
  try {
    await migrate(db, { types: POSTGRES_TYPES });
  } catch (error) {
    await db.destroy();
    throw isOfStorage(error) ? new UnreachableError(databaseUrl, error) : error;
  }
  const running = new Set<Promise<unknown>>();
  return {
    run: (name, packed) => {
      const isHeavy = operationNamed(name).isHeavy(packed as never);
      if (isHeavy) heavy ??= createKysely(createPool(databaseUrl, HEAVY));
      const call = run(isHeavy && heavy ? heavy : db, name, packed);
      running.add(call);
      const forget = () => running.delete(call);
      call.then(forget, forget);
      return call;
    },
    close: async () => {
      // A call that still waits for a connection would wait for ever once the pool ends.
      await Promise.allSettled(running);
      await Promise.all([db.destroy(), heavy?.destroy()]);
    },
  };
}

async function run(db: Kysely<Schema>, name: string, packed: unknown): Promise<unknown> {
  const { mode, isHeavy, run } = operationNamed(name);
  try {
    if (mode !== "write") return await run(sessionOn(db), packed as never);
    return await db.transaction().execute((transaction) => run(sessionOn(transaction), packed as never));
  } catch (error) {
    if (isHeavy(packed as never) && isTimeout(error)) throw new AppError("query_timeout", RETRY, error);
    throw translateError(error, mode);
  }
}

function sessionOn(db: Kysely<Schema>): Session {
  return {
    db,
    sql,
    databaseNow: sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`,
    usageSlot: USAGE_SLOT,
    // Its own vacuum looks after that.
    freeBytes: () => 0,
    giveBack: () => {},
    skipLocked: (table) => sql`for update of ${sql.table(table)} skip locked`,
    ...columnWriter(db),
  };
}
