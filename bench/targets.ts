import type { LoadResult } from "./load-job.ts";
import type { ConnectionCount, SubjectResult, SyncRound } from "./sync.ts";

/** A promise in figures, and what was measured of it. */
export type Verdict = {
  readonly what: string;
  readonly bound: "at least" | "at most";
  readonly target: number;
  /** Null where one side was not measured. */
  readonly value: number | null;
  /** The lowest and the highest of the single rounds. */
  readonly spread: readonly [number, number] | null;
  readonly unit: "ratio" | "ms" | "per second" | "KB" | "MB";
  readonly isMet: boolean | null;
};

/** Holds a figure against its target. */
export function judge(verdict: Omit<Verdict, "isMet">): Verdict {
  const { value, bound, target } = verdict;
  if (value === null) return { ...verdict, isMet: null };
  return { ...verdict, isMet: bound === "at least" ? value >= target : value <= target };
}

/** The middle of the values; of an even number the lower of the two in the middle, so that it is a real one. */
export function medianBy<T>(values: readonly T[], key: (value: T) => number): T | null {
  const sorted = values.toSorted((a, b) => key(a) - key(b));
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? null;
}

/** The round that stands for a subject: the median by calls per second. */
export function medianRound(result: SubjectResult, connections: ConnectionCount): SyncRound | null {
  return medianBy(measuredRounds(result, connections), (round) => round.callsPerSecond);
}

function measuredRounds(
  { status, rounds }: SubjectResult,
  connections: ConnectionCount,
): readonly SyncRound[] {
  return status === "measured" ? rounds[connections] : [];
}

/** The three ratios that `npm run bench sync` is for. */
export function judgeSync(results: readonly SubjectResult[]): Verdict[] {
  const find = (id: SubjectResult["id"]) => results.find((result) => result.id === id);
  const [floor, millrace, fastapi] = [find("floor"), find("millrace"), find("fastapi")];
  const rate = (round: LoadResult) => round.callsPerSecond;
  return [
    judge({
      what: "Millrace / floor, calls/s at 32 connections",
      bound: "at least",
      target: 0.65,
      unit: "ratio",
      ...ratio(millrace, floor, 32, rate),
    }),
    judge({
      what: "Millrace / FastAPI, calls/s at 32 connections",
      bound: "at least",
      target: 1.7,
      unit: "ratio",
      ...ratio(millrace, fastapi, 32, rate),
    }),
    judge({
      what: "Millrace / floor, p50 at 1 connection",
      bound: "at most",
      target: 1.4,
      unit: "ratio",
      ...ratio(millrace, floor, 1, (round) => round.p50Us),
    }),
  ];
}

/** Of both in the same round: a machine that becomes faster or slower meanwhile changes each round alike. */
export function ratio(
  upper: SubjectResult | undefined,
  lower: SubjectResult | undefined,
  connections: ConnectionCount,
  figure: (round: SyncRound) => number,
): Pick<Verdict, "value" | "spread"> {
  const rounds = (result: SubjectResult | undefined) => (result ? measuredRounds(result, connections) : []);
  return divided(rounds(upper), rounds(lower), figure);
}

/** The median of what each round of one side is to the same round of the other, and the range. */
export function divided<T>(
  uppers: readonly T[],
  lowers: readonly T[],
  figure: (round: T) => number,
): Pick<Verdict, "value" | "spread"> {
  return summary(
    uppers.flatMap((round, index) => {
      const other = lowers[index];
      return other === undefined ? [] : figure(round) / figure(other);
    }),
  );
}

/** The median of the values, and their range. */
export function summary(values: readonly number[]): Pick<Verdict, "value" | "spread"> {
  const value = medianBy(values, (each) => each);
  return { value, spread: value === null ? null : [Math.min(...values), Math.max(...values)] };
}
