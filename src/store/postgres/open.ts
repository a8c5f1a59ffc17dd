import { sql } from "kysely";
import type { Kysely } from "kysely";
import { hostUrls } from "../../kit/host-urls.ts";
import { migrate } from "../migrate.ts";
import { POSTGRES_TYPES } from "../migrations/column-types.ts";
import { AppError } from "../../model/errors.ts";
import { HEAVY_READ_MS } from "../operation.ts";
import type { Backend, Lane, Session } from "../operation.ts";
import { PROBE_BYTES, meta } from "../meta.ts";
import { operationNamed } from "../operations.ts";
import type { Schema } from "../schema.ts";
import type { PoolLimits } from "./connection.ts";
import { Connections } from "./connections.ts";
import { HintLine } from "./hint-line.ts";
import { clientClass } from "./hosts.ts";
import { isConflict, isOfStorage, isSilence, isTimeout, translateError } from "./errors.ts";
import { READ_LIMITS, readKind } from "./read-kinds.ts";
import { USAGE_SLOT, columnWriter } from "./write-columns.ts";
import { WRITE_LIMITS, writeKind } from "./write-kinds.ts";

/** Of what is in conflict with another transaction. The server may take a second to see that two wait for each other. */
const MAX_TRIES = 3;
const RETRY = { headers: { "retry-after": "5" } };

/** Postgres could not be used at the start; the message names the server, never the password. */
export class UnreachableError extends Error {
  constructor(databaseUrl: string, cause: Error) {
    const addresses = hostUrls(databaseUrl).map((each) => {
      const { hostname, port, pathname } = new URL(each);
      return `${decodeURIComponent(hostname)}${port && `:${port}`}${pathname}`;
    });
    // Where a name has several addresses Node reports all their failures at once, with no message.
    const reason = cause instanceof AggregateError ? String(cause.errors[0]) : cause.message;
    super(`cannot use the Postgres database ${addresses.join(", ")}: ${reason}`, { cause });
    this.name = "UnreachableError";
  }
}

// Each kind has connections of its own: what takes long in one never takes up those of another.
const HEAVY: PoolLimits = { max: 2, waitMs: HEAVY_READ_MS, statementMs: HEAVY_READ_MS };
const MIGRATION: PoolLimits = { max: 1, waitMs: 5_000, statementMs: null };
/** One for each lane; a probe is answered in this time, or not. */
const PROBES: PoolLimits = { max: 2, waitMs: 2_000, statementMs: 1_900, answerMs: 2_000 };

type PostgresOpening = {
  /** Where the server is reached without a pooler; null: at the same address. */
  readonly databaseDirectUrl?: string | null;
  /** It is only read, as it is. */
  readonly isReadOnly?: boolean;
  readonly onUpgrade?: ((names: readonly string[]) => void) | undefined;
};

/** Opens a database on a Postgres server; each write is a transaction of its own. */
export async function openPostgres(
  databaseUrl: string,
  { databaseDirectUrl = null, isReadOnly = false, onUpgrade }: PostgresOpening = {},
): Promise<Backend> {
  const client = clientClass(databaseUrl);
  const byKind = <Kind extends string>(limits: Readonly<Record<Kind, PoolLimits>>) =>
    new Map(
      (Object.keys(limits) as Kind[]).map((kind) => [
        kind,
        new Connections(databaseUrl, limits[kind], client),
      ]),
    );
  const reads = byKind(READ_LIMITS);
  const writes = byKind(WRITE_LIMITS);
  const heavy = new Connections(databaseUrl, HEAVY, client);
  const probes = new Connections(databaseUrl, PROBES, client);
  const directUrl = databaseDirectUrl ?? databaseUrl;
  await bringUpToDate(directUrl, { isReadOnly, onUpgrade });
  const hints = new HintLine(directUrl);
  const running = new Set<Promise<unknown>>();
  const track = <Result>(call: Promise<Result>): Promise<Result> => {
    running.add(call);
    const forget = () => running.delete(call);
    call.then(forget, forget);
    return call;
  };
  return {
    run: (name, packed) => {
      const { mode, isHeavy } = operationNamed(name);
      const light = mode === "read" ? reads.get(readKind(name))! : writes.get(writeKind(name))!;
      const { db } = isHeavy(packed as never) ? heavy : light;
      return track(run(db, name, packed, () => hints.send()));
    },
    listen: (onHint) => hints.listen(onHint),
    probe: (lane) => track(probe(sessionOn(probes.db), lane)),
    abandon: (lane) => {
      const ofLane = lane === "read" ? [...reads.values(), heavy] : writes.values();
      for (const connections of ofLane) connections.abandon();
    },
    close: async () => {
      // A call that still waits for a connection would wait for ever once the pool ends.
      await Promise.allSettled(running);
      const all = [...reads.values(), ...writes.values(), heavy, probes];
      await Promise.all([hints.close(), ...all.map((connections) => connections.close())]);
    },
  };
}

/** On a connection of its own, without limits of time: a large table takes as long as it takes. */
async function bringUpToDate(databaseUrl: string, { isReadOnly, onUpgrade }: PostgresOpening): Promise<void> {
  const connections = new Connections(databaseUrl, MIGRATION);
  try {
    if (isReadOnly) await sql`select 1`.execute(connections.db);
    else await migrate(connections.db, { types: POSTGRES_TYPES, onUpgrade });
  } catch (error) {
    throw isOfStorage(error) ? new UnreachableError(databaseUrl, error) : error;
  } finally {
    await connections.close();
  }
}

async function probe(session: Session, lane: Lane): Promise<void> {
  try {
    if (lane === "read") await meta.get.run(session, "instance_id");
    else await meta.prove.run(session, PROBE_BYTES);
  } catch (error) {
    if (isSilence(error)) throw error;
  }
}

async function run(
  db: Kysely<Schema>,
  name: string,
  packed: unknown,
  tellOthers: () => void,
): Promise<unknown> {
  const { mode, isHeavy, run } = operationNamed(name);
  const once = async (): Promise<unknown> => {
    if (mode !== "write") return await run(sessionOn(db), packed as never);
    // Whatever the server's default is: writes count on seeing what they waited for.
    const transaction = db.transaction().setIsolationLevel("read committed");
    let isNoted = false;
    const session = (begun: Kysely<Schema>) => ({ ...sessionOn(begun), tellOthers: () => (isNoted = true) });
    const result = await transaction.execute((begun) => run(session(begun), packed as never));
    if (isNoted) tellOthers();
    return result;
  };
  for (let tries = 1; ; tries += 1) {
    try {
      return await once();
    } catch (error) {
      if (isConflict(error) && tries < MAX_TRIES) continue;
      if (isHeavy(packed as never) && isTimeout(error)) throw new AppError("query_timeout", RETRY, error);
      throw translateError(error, mode);
    }
  }
}

function sessionOn(db: Kysely<Schema>): Session {
  return {
    db,
    sql,
    databaseNow: sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`,
    tellOthers: null,
    usageSlot: USAGE_SLOT,
    // Its own vacuum looks after that.
    freeBytes: () => 0,
    giveBack: () => {},
    shareLock: sql`for share`,
    skipLocked: (table) => sql`for update of ${sql.table(table)} skip locked`,
    ...columnWriter(db),
  };
}
