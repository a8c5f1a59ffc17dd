import { ANSWER_MS, type PoolLimits } from "./connections.ts";

// A caller waits for these: with the time to get a connection, they time out within 5 s, like writes.
const TIMES = { waitMs: 2_500, statementMs: 2_400, answerMs: ANSWER_MS } as const;

/** The limits of each kind. A table that `VACUUM FULL` or `ALTER TABLE` locks blocks only readers of its kind. */
export const READ_LIMITS = {
  /** Runs and their contents. */
  runs: { max: 2, ...TIMES },
  /** Logs of apps and builds, and the audit log. */
  lines: { max: 1, ...TIMES },
  /** Owners and hosts of apps. Callers need no token for these: one statement at a time, for many names. */
  places: { max: 1, ...TIMES },
  /** The service's own reads, perhaps of large tables. No caller waits for them. */
  own: { max: 2, waitMs: 5_000, statementMs: 10_000 },
  /** All other reads, which are small: tokens, people, apps and their versions. */
  rest: { max: 3, ...TIMES },
} as const satisfies Record<string, PoolLimits>;

/** Reads that share connections. */
type ReadKind = keyof typeof READ_LIMITS;

const READ_KINDS: Readonly<Record<Exclude<ReadKind, "places" | "rest">, readonly string[]>> = {
  runs: [
    "batchFiles",
    "batchLines",
    "bulkJobs",
    "checkpoints",
    "delayedLines",
    "deliveries",
    "keys",
    "lineBatches",
    "openaiBatches",
    "payloads",
    "runs",
    "transcripts",
  ],
  lines: ["auditEntries", "buildLines", "builds", "logs"],
  own: ["claims", "firings", "keyLines", "limits", "nodes", "retention", "runBlobs"],
};

const BY_GROUP = inverted(READ_KINDS);

/** The kind of each name. */
function inverted<Kind extends string>(kinds: Readonly<Record<Kind, readonly string[]>>): Map<string, Kind> {
  const all = Object.keys(kinds) as Kind[];
  return new Map(all.flatMap((kind) => kinds[kind].map((name) => [name, kind])));
}

/** Operations of other groups. */
const OWN = new Set([
  "appOwners.list",
  "appOwners.owned",
  "appOwners.ownerless",
  "batchLines.openCount",
  "bulkJobs.open",
  "delayedLines.due",
  "dailyUsage.gpuMs",
  "deliveries.nextDueAt",
  "lineBatches.block",
  "lineBatches.open",
  "queueStates.closed",
  "versions.inUse",
]);

/** Which connections a read uses. */
export function readKind(name: string): ReadKind {
  if (name === "appOwners.find" || name === "apps.findHosted") return "places";
  // Callers who ask for a run wait for it.
  if (name === "claims.attempts" || name === "claims.position") return "runs";
  if (OWN.has(name)) return "own";
  return BY_GROUP.get(name.slice(0, name.indexOf("."))) ?? "rest";
}

/**
 * The limits of each kind. A kind that waits, for a locked table or a disk, never uses the connections of another: a
 * service that cannot renew its lease loses all its runs. Writes with a caller time out within 5 s; others may take
 * longer.
 */
export const WRITE_LIMITS = {
  /** The heartbeat. If its connection is lost, it times out before the next one is due. */
  lease: { max: 1, waitMs: 1_800, statementMs: 1_700, answerMs: 1_800 },
  /** Batches of accepted runs, one after the other, and of those in doubt. */
  accept: { max: 2, waitMs: 4_000, statementMs: 4_000, answerMs: ANSWER_MS },
  /** Calls with a key, each in its own transaction. */
  keyed: { max: 2, waitMs: 4_000, statementMs: 4_000, answerMs: ANSWER_MS },
  /** Claims of runs and apps, which must continue however many calls have a key. */
  claim: { max: 2, waitMs: 4_000, statementMs: 4_000, answerMs: ANSWER_MS },
  /** Lines of batches as callers send them. */
  upload: { max: 2, waitMs: 4_000, statementMs: 4_000, answerMs: ANSWER_MS },
  /** What becomes of many runs at a time: the lines of batches, bulk jobs. */
  bulk: { max: 2, waitMs: 5_000, statementMs: 30_000 },
  /** The ends of runs, and the recovery of runs whose service is dead. */
  end: { max: 3, waitMs: 5_000, statementMs: 30_000 },
  /** Writes in the background and removals, which may be large. */
  keep: { max: 3, waitMs: 5_000, statementMs: 30_000 },
  /** All other writes: the changes of people and deploys. */
  manage: { max: 3, waitMs: 2_500, statementMs: 2_400, answerMs: ANSWER_MS },
} as const satisfies Record<string, PoolLimits>;

/** Writes that share connections. */
type WriteKind = keyof typeof WRITE_LIMITS;

const WRITE_KINDS: Readonly<Record<Exclude<WriteKind, "manage">, readonly string[]>> = {
  lease: ["nodes.renew"],
  accept: ["runs.accept", "runs.prove", "runs.refuse"],
  keyed: ["runs.acceptKeyed"],
  claim: [
    "appOwners.handOver",
    "appOwners.take",
    "claims.claim",
    "claims.makeDue",
    "claims.setAsync",
    "firings.fire",
    "firings.start",
    "keyLines.admit",
  ],
  upload: [
    "batchFiles.append",
    "batchFiles.finish",
    "batchFiles.insert",
    "batchFiles.remove",
    "lineBatches.abandon",
    "lineBatches.append",
    "lineBatches.insert",
    "lineBatches.resume",
    "lineBatches.start",
    "openaiBatches.insert",
  ],
  bulk: [
    "batchLines.collect",
    "batchLines.feed",
    "bulkJobs.claim",
    "bulkJobs.end",
    "bulkJobs.letGo",
    "bulkJobs.note",
    "bulkJobs.remove",
    "bulkJobs.retry",
    "delayedLines.feed",
    "lineBatches.drop",
    "lineBatches.end",
  ],
  end: [
    "claims.endQueued",
    "claims.finish",
    "claims.held",
    "claims.recover",
    "claims.release",
    "runs.insertFinished",
  ],
  keep: [
    "accounts.touchLastUsed",
    "auditEntries.expire",
    "batchFiles.expire",
    "buildLines.append",
    "builds.prune",
    "changes.prune",
    "checkpoints.write",
    "dailyUsage.expire",
    "deliveries.claimDue",
    "deliveries.held",
    "deliveries.postpone",
    "deliveries.recordAttempt",
    "firings.end",
    "firings.prune",
    "keyLines.removeStarts",
    "keys.forget",
    "limits.settle",
    "lineBatches.remove",
    "logs.expire",
    "logs.insert",
    "logs.removeOldest",
    "logs.trim",
    "openaiBatches.expire",
    "quotaCounts.exchange",
    "quotaCounts.prune",
    "replicaUsage.add",
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

const BY_NAME = inverted(WRITE_KINDS);

/** The names of all operations that are not of the kind `manage`. */
export const SORTED_WRITES: readonly string[] = [...BY_NAME.keys()];

/** Which connections a write uses. */
export function writeKind(name: string): WriteKind {
  return BY_NAME.get(name) ?? "manage";
}
