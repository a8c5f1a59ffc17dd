import { type Kysely, sql } from "kysely";
import { hostUrls } from "../../config/cluster-keys.ts";
import { AppError } from "../../model/errors.ts";
import { type Backend, HEAVY_READ_MS, type Lane, type Schema, type Session } from "../operation.ts";
import { PROBE_BYTES, meta } from "../meta.ts";
import { operationNamed } from "../operations.ts";
import { Connections, type PoolLimits, targetOf } from "./connections.ts";
import { HintLine } from "./hint-line.ts";
import { clientClass, keepsSettings } from "./hosts.ts";
import { isConflict, isOfStorage, isSilence, isTimeout, translateError } from "./errors.ts";
import { READ_LIMITS, readKind, WRITE_LIMITS, writeKind } from "./connection-kinds.ts";
import { isLostStatement } from "./dialect.ts";
import { bringUpToDate, type UpgradeReports } from "./upgrade.ts";
import { USAGE_SLOT, columnWriter } from "./write-columns.ts";

/** Attempts of a transaction with conflicts. The server may take a second to detect a deadlock. */
const MAX_TRIES = 3;
const RETRY = { headers: { "retry-after": "5" } };

/** Postgres could not be used at the start. The message names the server, never the password. */
export class UnreachableError extends Error {
  constructor(databaseUrl: string, cause: Error) {
    const addresses = hostUrls(databaseUrl).map((each) => {
      const { hostname, port, pathname } = new URL(each);
      return `${decodeURIComponent(hostname)}${port && `:${port}`}${pathname}`;
    });
    // If a name has several addresses, Node reports all their failures at once, without a message.
    const reason = cause instanceof AggregateError ? String(cause.errors[0]) : cause.message;
    super(`cannot use the Postgres database ${addresses.join(", ")}: ${reason}`, { cause });
    this.name = "UnreachableError";
  }
}

// Each kind has its own connections, so that slow operations of one kind never use those of another.
const HEAVY: PoolLimits = { max: 2, waitMs: HEAVY_READ_MS, statementMs: HEAVY_READ_MS };
/** One connection for each lane. */
const PROBES: PoolLimits = { max: 2, waitMs: 2_000, statementMs: 1_900, answerMs: 2_000 };

export type PostgresOpening = UpgradeReports & {
  /** The address of Postgres without a pooler, to listen and to migrate; null: the same address. */
  readonly databaseDirectUrl?: string | null;
  /** Only reads the database and changes nothing; no other process may have it open. */
  readonly isReadOnly?: boolean;
};

/** Opens a database on a Postgres server. Each write is its own transaction. */
export async function openPostgres(databaseUrl: string, opening: PostgresOpening = {}): Promise<Backend> {
  const target = targetOf(databaseUrl, await prepare(databaseUrl, opening));
  const byKind = <Kind extends string>(limits: Readonly<Record<Kind, PoolLimits>>) =>
    new Map((Object.keys(limits) as Kind[]).map((kind) => [kind, new Connections(target, limits[kind])]));
  const reads = byKind(READ_LIMITS);
  const writes = byKind(WRITE_LIMITS);
  const heavy = new Connections(target, HEAVY);
  const probes = new Connections(target, PROBES);
  const hints = new HintLine(opening.databaseDirectUrl ?? databaseUrl);
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
      // Without settings of the session, reads have time limits only in a transaction.
      const isInTransaction = mode === "write" || !target.keepsSettings;
      return track(run(db, { name, packed, isInTransaction }, () => hints.send()));
    },
    listen: (onHint) => hints.listen(onHint),
    probe: (lane) => track(probe(sessionOn(probes.db), lane)),
    abandon: (lane) => {
      const ofLane = lane === "read" ? [...reads.values(), heavy] : writes.values();
      for (const connections of ofLane) connections.abandon();
    },
    close: async () => {
      // A call that waits for a connection would wait forever after the pool ends.
      await Promise.allSettled(running);
      const all = [...reads.values(), ...writes.values(), heavy, probes];
      await Promise.all([hints.close(), ...all.map((connections) => connections.close())]);
    },
  };
}

/** Prepares the database for the first call; returns whether sessions keep their settings. */
async function prepare(databaseUrl: string, opening: PostgresOpening): Promise<boolean> {
  const { databaseDirectUrl, isReadOnly } = opening;
  let url = databaseDirectUrl ?? databaseUrl;
  try {
    if (isReadOnly !== true) await bringUpToDate(url, opening);
    url = databaseUrl;
    return await keepsSettings(url, clientClass(url));
  } catch (error) {
    throw isOfStorage(error) ? new UnreachableError(url, error) : error;
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

type OperationCall = { readonly name: string; readonly packed: unknown; readonly isInTransaction: boolean };

async function run(
  db: Kysely<Schema>,
  { name, packed, isInTransaction }: OperationCall,
  tellOthers: () => void,
): Promise<unknown> {
  const { mode, isHeavy, run } = operationNamed(name);
  const once = async (): Promise<unknown> => {
    if (!isInTransaction) return await run(sessionOn(db), packed as never);
    // Whatever the server's default is: writes need to see what they waited for.
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
      if ((isConflict(error) || isLostStatement(error)) && tries < MAX_TRIES) continue;
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
    shareLock: sql`for share`,
    skipLocked: (table) => sql`for update of ${sql.table(table)} skip locked`,
    ...columnWriter(db),
  };
}
