import { readFileSync, statSync } from "node:fs";
import path from "node:path";
import { descriptorsOf, memoryBytes } from "../support/process-tree.ts";

/** What is kept flat, at one moment. */
export type Sample = {
  readonly memoryMb: number;
  readonly descriptors: number;
  readonly walMb: number;
  /** Of sync calls that met no fault since the last sample. */
  readonly p99Ms: number | null;
};

/** May grow by so much from the first third to the last: what a shared machine and chance make of it. */
const SLACK = {
  memoryMb: (first: number) => first * 1.25 + 20,
  descriptors: (first: number) => first * 1.25 + 20,
  // SQLite cuts its log back to 64 MB after a burst.
  walMb: (first: number) => Math.max(first * 1.5, 66),
  p99Ms: (first: number) => first * 3 + 50,
} satisfies Record<keyof Sample, (first: number) => number>;

const MB = 1024 * 1024;

/** Looks at a service from outside. */
export function takeSample(pid: number, dataDir: string, latenciesMs: readonly number[]): Sample {
  const wal = statSync(path.join(dataDir, "millrace.db-wal"), { throwIfNoEntry: false })?.size ?? 0;
  return {
    memoryMb: memoryBytes(pid) / MB,
    descriptors: descriptorsOf(pid).size,
    walMb: wal / MB,
    p99Ms: quantile(latenciesMs, 0.99),
  };
}

/** Compares the middle of the first third with that of the last; a sentence for each figure that grew. */
export function growths(samples: readonly Sample[]): string[] {
  const third = Math.floor(samples.length / 3);
  if (third === 0) return [];
  return (Object.keys(SLACK) as (keyof Sample)[]).flatMap((name) => {
    const [first, last] = [samples.slice(0, third), samples.slice(-third)].map((part) =>
      quantile(
        part.map((sample) => sample[name]).filter((value) => value !== null),
        0.5,
      ),
    );
    if (first === undefined || first === null || last === undefined || last === null) return [];
    if (last <= SLACK[name](first)) return [];
    return [
      `${name} grew from ${first.toFixed(1)} to ${last.toFixed(1)}, the middle of the first and the last third`,
    ];
  });
}

/** What an idle service should have given back: open files that nobody finds any more, and connections half closed. */
export function leftOpen(pid: number): string[] {
  const descriptors = [...descriptorsOf(pid).values()];
  const sockets = new Set(descriptors);
  const CLOSE_WAIT = "08";
  const half = readFileSync("/proc/net/tcp", "utf8")
    .split("\n")
    .slice(1)
    .map((row) => row.trim().split(/\s+/))
    .filter(([, , , state, , , , , , inode]) => state === CLOSE_WAIT && sockets.has(`socket:[${inode}]`));
  const deleted = descriptors.filter((target) => target.endsWith(" (deleted)"));
  return [
    ...deleted.map((target) => `open and deleted: ${target}`),
    ...half.map((row) => `half closed: ${row.slice(1, 3).join(" to ")}`),
  ];
}

/** The value below which that part of the values lies; null of none. */
export function quantile(values: readonly number[], part: number): number | null {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? null;
}
