import { ANSWER_MS } from "./connection.ts";
import type { PoolLimits } from "./connection.ts";

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

const KINDS: Readonly<Record<Exclude<WriteKind, "manage">, readonly string[]>> = {
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
  (Object.keys(KINDS) as (keyof typeof KINDS)[]).flatMap((kind) =>
    KINDS[kind].map((name): [string, WriteKind] => [name, kind]),
  ),
);

/** The names of all operations that are not of the kind `manage`. */
export const SORTED_WRITES: readonly string[] = [...BY_NAME.keys()];

/** Whose connections a write takes. */
export function writeKind(name: string): WriteKind {
  return BY_NAME.get(name) ?? "manage";
}
