import type { DatabaseKind } from "./async-database.ts";
import type { AsyncResult } from "./async.ts";
import { judge, medianBy, type Verdict } from "./targets.ts";

/** Durable 202s per second at 64 connections. */
const PER_SECOND: Record<DatabaseKind, number> = { sqlite: 8_000, postgres: 3_000 };

/** What is left of a run in which something went wrong. */
const NOTHING: Pick<AsyncResult, "held" | "dispatch"> = { held: [], dispatch: [] };

/** The promises on async runs. Those on accepting are of the rounds in which nothing is executed. */
export function judgeAsync(kind: DatabaseKind, result: AsyncResult): Verdict[] {
  const { held, dispatch } = result.problem === null ? result : NOTHING;
  const accepted = medianBy(held, ({ callsPerSecond }) => callsPerSecond);
  const dispatched = medianBy(dispatch, ({ sinceAccepted }) => sinceAccepted.p50Us);
  return [
    judge({
      what: "durable 202s per second at 64 connections",
      bound: "at least",
      target: PER_SECOND[kind],
      unit: "per second",
      value: accepted?.callsPerSecond ?? null,
      spread: rangeOf(held.map(({ callsPerSecond }) => callsPerSecond)),
    }),
    judge({
      what: "p99 of the 202 at 64 connections",
      bound: "at most",
      target: 20,
      unit: "ms",
      value: accepted === null ? null : accepted.p99Us / 1000,
      spread: rangeOf(held.map(({ p99Us }) => p99Us / 1000)),
    }),
    judge({
      what: "p50 from the 202 to the function, one at a time",
      bound: "at most",
      target: 5,
      unit: "ms",
      value: dispatched === null ? null : dispatched.sinceAccepted.p50Us / 1000,
      spread: rangeOf(dispatch.map(({ sinceAccepted }) => sinceAccepted.p50Us / 1000)),
    }),
  ];
}

/** What accepting over HTTP keeps of the bare group commit, in each round. */
export function shareOfFloor({ floor, held }: AsyncResult): number[] {
  return held.flatMap(({ callsPerSecond }, round) => {
    const bare = floor[round];
    return bare === undefined ? [] : callsPerSecond / bare.perSecond;
  });
}

function rangeOf(values: readonly number[]): [number, number] | null {
  return values.length < 2 ? null : [Math.min(...values), Math.max(...values)];
}
