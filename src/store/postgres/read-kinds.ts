import { ANSWER_MS } from "./connection.ts";
import type { PoolLimits } from "./connection.ts";

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

const KINDS: Readonly<Record<Exclude<ReadKind, "places" | "rest">, readonly string[]>> = {
  runs: ["deliveries", "keys", "payloads", "runs", "transcripts"],
  lines: ["auditEntries", "buildLines", "builds", "logs"],
  own: ["claims", "nodes", "retention", "runBlobs"],
};

const BY_GROUP = new Map(
  (Object.keys(KINDS) as (keyof typeof KINDS)[]).flatMap((kind) =>
    KINDS[kind].map((group): [string, ReadKind] => [group, kind]),
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
