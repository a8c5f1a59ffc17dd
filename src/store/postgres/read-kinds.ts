import { ANSWER_MS } from "./connection.ts";
import type { PoolLimits } from "./connection.ts";

/** Reads that share connections. */
type ReadKind = "runs" | "lines" | "rest";

// Somebody waits for each: with the time to get a connection it is given up within 5 s, as a write is.
const TIMES = { waitMs: 2_500, statementMs: 2_400, answerMs: ANSWER_MS } as const;

/**
 * What each kind may take. A table that is locked against reading (`VACUUM FULL`, `ALTER TABLE`) keeps everybody who
 * asks for something in it waiting: those who ask for their runs must not keep tokens from being checked.
 */
export const READ_LIMITS: Readonly<Record<ReadKind, PoolLimits>> = {
  /** Runs, and what is kept of them. */
  runs: { max: 3, ...TIMES },
  /** What apps and builds print, and what people did. */
  lines: { max: 2, ...TIMES },
  /** All the rest, which is small: tokens, people, apps and their versions. */
  rest: { max: 3, ...TIMES },
};

const KINDS: Readonly<Record<Exclude<ReadKind, "rest">, readonly string[]>> = {
  runs: ["claims", "deliveries", "keys", "payloads", "retention", "runs", "transcripts"],
  lines: ["auditEntries", "buildLines", "builds", "logs"],
};

const BY_GROUP = new Map(
  (Object.keys(KINDS) as (keyof typeof KINDS)[]).flatMap((kind) =>
    KINDS[kind].map((group): [string, ReadKind] => [group, kind]),
  ),
);

/** Runs are what it reads. */
const OF_RUNS = "versions.inUse";

/** Whose connections a read takes. */
export function readKind(name: string): ReadKind {
  if (name === OF_RUNS) return "runs";
  return BY_GROUP.get(name.slice(0, name.indexOf("."))) ?? "rest";
}
