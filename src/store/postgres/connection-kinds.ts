import { ANSWER_MS } from "./connections.ts";
import type { PoolLimits } from "./connections.ts";

/** Reads that share connections. */
type ReadKind = "runs" | "lines" | "places" | "own" | "rest";

// Somebody waits for these: with the time to get a connection they are given up within 5 s, as a write is.
const TIMES = { waitMs: 2_500, statementMs: 2_400, answerMs: ANSWER_MS } as const;

/**
 * What each kind may take. A table that is locked against reading (`VACUUM FULL`, `ALTER TABLE`) keeps everybody who
 * asks for something in it waiting: those who ask for their runs must not keep tokens from being checked.
 */
export const READ_LIMITS: Readonly<Record<ReadKind, PoolLimits>> = {
  /** Runs, and what is kept of them. */
  runs: { max: 2, ...TIMES },
  /** What apps and builds print, and what people did. */
  lines: { max: 1, ...TIMES },
  /** Which node has an app, and which app has a host. Callers need no token for these: one statement at a time, for many names. */
  places: { max: 1, ...TIMES },
  /** What the service looks for by itself, perhaps in large tables. Nobody waits for it. */
  own: { max: 2, waitMs: 5_000, statementMs: 10_000 },
  /** All the rest, which is small: tokens, people, apps and their versions. */
  rest: { max: 3, ...TIMES },
};

const READ_KINDS: Readonly<Record<Exclude<ReadKind, "places" | "rest">, readonly string[]>> = {
  runs: ["deliveries", "keys", "payloads", "runs", "transcripts"],
  lines: ["auditEntries", "buildLines", "builds", "logs"],
  own: ["claims", "nodes", "retention", "runBlobs"],
};

const BY_GROUP = new Map(
  (Object.keys(READ_KINDS) as (keyof typeof READ_KINDS)[]).flatMap((kind) =>
    READ_KINDS[kind].map((group): [string, ReadKind] => [group, kind]),
  ),
);

/** Of other groups. */
const OWN = new Set([
  "appOwners.list",
  "appOwners.owned",
  "appOwners.ownerless",
  "deliveries.nextDueAt",
  "versions.inUse",
]);

/** Whose connections a read takes. */
export function readKind(name: string): ReadKind {
  if (name === "appOwners.find" || name === "apps.findHosted") return "places";
  if (OWN.has(name)) return "own";
  return BY_GROUP.get(name.slice(0, name.indexOf("."))) ?? "rest";
}

/** Writes that share connections. */
type WriteKind = "lease" | "accept" | "keyed" | "claim" | "end" | "keep" | "manage";

/**
 * What each kind may take. Whatever a kind waits for, a locked table or a disk, it takes the connections of no other:
 * a service that cannot renew its lease loses all its runs to another. What a caller waits for is given up within
 * 5 s, with the time to get a connection where nothing else watches that; what nobody waits for has longer.
 */
export const WRITE_LIMITS: Readonly<Record<WriteKind, PoolLimits>> = {
  /** The sign of life. One that is lost with its connection is given up before the next is due. */
  lease: { max: 1, waitMs: 1_800, statementMs: 1_700, answerMs: 1_800 },
  /** Batches of accepted runs, one after the other, and of those in doubt. */
  accept: { max: 2, waitMs: 4_000, statementMs: 4_000, answerMs: ANSWER_MS },
  /** Calls with a key, each a transaction of its own. */
  keyed: { max: 2, waitMs: 4_000, statementMs: 4_000, answerMs: ANSWER_MS },
  /** What takes on runs, or apps: however many call with a key, it goes on. */
  claim: { max: 2, waitMs: 4_000, statementMs: 4_000, answerMs: ANSWER_MS },
  /** The ends of runs, and what becomes of those whose service is gone. */
  end: { max: 3, waitMs: 5_000, statementMs: 30_000 },
  /** What is written behind or removed, of which there may be much. */
  keep: { max: 3, waitMs: 5_000, statementMs: 30_000 },
  /** All the rest: what people and deploys change. */
  manage: { max: 3, waitMs: 2_500, statementMs: 2_400, answerMs: ANSWER_MS },
};

const WRITE_KINDS: Readonly<Record<Exclude<WriteKind, "manage">, readonly string[]>> = {
  lease: ["nodes.renew"],
  accept: ["runs.accept", "runs.prove", "runs.refuse"],
  keyed: ["runs.acceptKeyed"],
  claim: ["appOwners.handOver", "appOwners.take", "claims.claim", "claims.setAsync"],
  end: ["claims.finish", "claims.release", "claims.held", "claims.recover", "runs.insertFinished"],
  keep: [
    "accounts.touchLastUsed",
    "auditEntries.expire",
    "buildLines.append",
    "builds.prune",
    "changes.prune",
    "deliveries.claimDue",
    "deliveries.held",
    "deliveries.postpone",
    "deliveries.recordAttempt",
    "keys.forget",
    "logs.expire",
    "logs.insert",
    "logs.removeOldest",
    "logs.trim",
    "retention.expire",
    "retention.removeDeliveries",
    "retention.removeKeys",
    "retention.removeOldest",
    "retention.removeRuns",
    "space.giveBack",
    "transcripts.trim",
    "transcripts.write",
    "versions.remove",
  ],
};

const BY_NAME = new Map(
  (Object.keys(WRITE_KINDS) as (keyof typeof WRITE_KINDS)[]).flatMap((kind) =>
    WRITE_KINDS[kind].map((name): [string, WriteKind] => [name, kind]),
  ),
);

/** The names of all operations that are not of the kind `manage`. */
export const SORTED_WRITES: readonly string[] = [...BY_NAME.keys()];

/** Whose connections a write takes. */
export function writeKind(name: string): WriteKind {
  return BY_NAME.get(name) ?? "manage";
}
