import type { StreamRound } from "./stream-client.ts";
import type { PartId } from "./stream-parts.ts";
import type { PartResult, StreamSubjectResult } from "./stream.ts";
import { judge, medianBy, type Verdict } from "./targets.ts";

/** The round that stands for a subject: the median by rate where that is the question, else by p99. */
export function medianStreamRound(id: PartId, result: StreamSubjectResult | undefined): StreamRound | null {
  if (result?.status !== "measured") return null;
  return medianBy(result.rounds, id === "fast" || id === "rate" ? rateOf : ({ p99Us }) => p99Us);
}

/** The promises on streams, those of the parts that were measured. */
export function judgeStream(results: readonly PartResult[]): Verdict[] {
  return results.flatMap((result) => JUDGES[result.part.id](result));
}

const JUDGES: Record<PartId, (result: PartResult) => Verdict[]> = {
  fast: judgeFast,
  rate: (result) => [
    judge({
      what: "Millrace / floor, messages/s of 1,000 streams",
      bound: "at least",
      target: 0.9,
      unit: "ratio",
      ...compare(result, find(result, "floor"), rateOf, divide),
    }),
  ],
  delay: (result) => judgeDelay(result, ""),
  gzip: (result) => judgeDelay(result, ", gzip"),
  open: (result) => [
    judge({
      what: "Millrace, p99 of the delay at 10,000 streams",
      bound: "at most",
      target: 1_000,
      unit: "ms",
      ...figure(result, ({ p99Us }) => p99Us / 1000),
    }),
    judge({
      what: "Millrace, memory of the service per stream",
      bound: "at most",
      target: 60,
      unit: "KB",
      ...figure(result, (round) => round.gatewayGrowthBytes / result.part.streams / 1000),
    }),
  ],
};

function judgeFast(result: PartResult): Verdict[] {
  const fastapi = fasterFastapi(result);
  return [
    judge({
      what: "Millrace, messages/s of one generator",
      bound: "at least",
      target: 300_000,
      unit: "per second",
      ...figure(result, rateOf),
    }),
    judge({
      what: `Millrace / ${fastapi?.name ?? "FastAPI"}, messages/s of one generator`,
      bound: "at least",
      target: 3,
      unit: "ratio",
      ...compare(result, fastapi, rateOf, divide),
    }),
  ];
}

function judgeDelay(result: PartResult, suffix: string): Verdict[] {
  const bound = { bound: "at most", unit: "ms" } as const;
  return [
    judge({
      ...bound,
      what: `Millrace − floor, p50 of the delay${suffix}`,
      target: 2,
      ...compare(result, find(result, "floor"), ({ p50Us }) => p50Us / 1000, subtract),
    }),
    judge({
      ...bound,
      what: `Millrace − floor, p99 of the delay${suffix}`,
      target: 25,
      ...compare(result, find(result, "floor"), ({ p99Us }) => p99Us / 1000, subtract),
    }),
  ];
}

function rateOf(round: StreamRound): number {
  return round.messagesPerSecond;
}

function divide(a: number, b: number): number {
  return a / b;
}

function subtract(a: number, b: number): number {
  return a - b;
}

/** Whichever of FastAPI's two ways was faster in this run. */
function fasterFastapi({ part, subjects }: PartResult): StreamSubjectResult | undefined {
  const rate = (subject: StreamSubjectResult) => medianStreamRound(part.id, subject)?.messagesPerSecond ?? 0;
  const ways = subjects.filter(({ id }) => id === "fastapi generator" || id === "fastapi async generator");
  return ways.toSorted((a, b) => rate(b) - rate(a))[0];
}

/** Of Millrace's median round, with the range over its rounds. */
function figure(result: PartResult, of: (round: StreamRound) => number): Pick<Verdict, "value" | "spread"> {
  const millrace = find(result, "millrace");
  const median = medianStreamRound(result.part.id, millrace);
  if (median === null || millrace === undefined) return { value: null, spread: null };
  return { value: of(median), spread: rangeOf(millrace.rounds.map(of)) };
}

function compare(
  result: PartResult,
  other: StreamSubjectResult | undefined,
  of: (round: StreamRound) => number,
  combine: (millrace: number, other: number) => number,
): Pick<Verdict, "value" | "spread"> {
  const millrace = find(result, "millrace");
  const a = medianStreamRound(result.part.id, millrace);
  const b = medianStreamRound(result.part.id, other);
  if (a === null || b === null || millrace === undefined) return { value: null, spread: null };
  const perRound = millrace.rounds.map((round, i) => combine(of(round), of(other?.rounds[i] ?? b)));
  return { value: combine(of(a), of(b)), spread: rangeOf(perRound) };
}

function find({ subjects }: PartResult, id: StreamSubjectResult["id"]): StreamSubjectResult | undefined {
  return subjects.find((subject) => subject.id === id);
}

function rangeOf(values: readonly number[]): [number, number] | null {
  return values.length < 2 ? null : [Math.min(...values), Math.max(...values)];
}
