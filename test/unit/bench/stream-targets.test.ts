import { expect, test } from "vitest";
import type { StreamRound } from "../../../bench/stream-client.ts";
import { streamProblemOf } from "../../../bench/stream-job.ts";
import { type PartId, PARTS } from "../../../bench/stream-parts.ts";
import { judgeStream } from "../../../bench/stream-targets.ts";
import type { PartResult, StreamSubjectResult } from "../../../bench/stream.ts";

function round(figures: Partial<StreamRound>): StreamRound {
  return {
    messages: 1,
    messagesPerSecond: 1,
    p50Us: 0,
    p99Us: 0,
    messagesEver: 1,
    cpuMs: [],
    residentBytes: [],
    readerCpuMs: 0,
    othersCores: 0,
    statuses: { 200: 1 },
    errors: {},
    gatewayCpuMs: 0,
    belowCpuMs: 0,
    gatewayGrowthBytes: 0,
    ...figures,
  };
}

function subject(id: StreamSubjectResult["id"], ...rounds: Partial<StreamRound>[]): StreamSubjectResult {
  return { id, name: id, note: null, status: "measured", problem: null, rounds: rounds.map(round) };
}

function part(id: PartId, ...subjects: StreamSubjectResult[]): PartResult {
  return { part: PARTS.find((part) => part.id === id)!, subjects };
}

function rates(...values: number[]): Partial<StreamRound>[] {
  return values.map((messagesPerSecond) => ({ messagesPerSecond }));
}

test("one fast generator is held against the faster of FastAPI's two ways", () => {
  const fastapi = [
    subject("fastapi async generator", ...rates(100_000)),
    subject("fastapi generator", ...rates(10_000)),
  ];
  const met = judgeStream([part("fast", subject("millrace", ...rates(300_000)), ...fastapi)]);
  expect(met.map(({ value, isMet }) => [value, isMet])).toEqual([
    [300_000, true],
    [3, true],
  ]);
  expect(met[1]?.what).toContain("fastapi async generator");
  const missed = judgeStream([part("fast", subject("millrace", ...rates(299_999)), ...fastapi)]);
  expect(missed.map(({ isMet }) => isMet)).toEqual([false, false]);
});

test("the rate of many streams is a ratio of medians, with the spread of the single rounds", () => {
  const [verdict] = judgeStream([
    part("rate", subject("floor", ...rates(100, 50, 200)), subject("millrace", ...rates(89, 40, 90))),
  ]);
  expect(verdict).toMatchObject({ value: 0.89, spread: [0.45, 0.89], isMet: false });
});

test("delays are judged by how far they are over the floor's, with gzip too", () => {
  const floor = subject("floor", { p50Us: 1_000, p99Us: 10_000 });
  for (const id of ["delay", "gzip"] as const) {
    const met = judgeStream([part(id, floor, subject("millrace", { p50Us: 3_000, p99Us: 35_000 }))]);
    expect(met.map(({ value, isMet }) => [value, isMet])).toEqual([
      [2, true],
      [25, true],
    ]);
    const missed = judgeStream([part(id, floor, subject("millrace", { p50Us: 3_001, p99Us: 35_001 }))]);
    expect(missed.map(({ isMet }) => isMet)).toEqual([false, false]);
  }
});

test("open streams are judged by their delay and by the memory of each", () => {
  const judged = (p99Us: number, gatewayGrowthBytes: number) =>
    judgeStream([part("open", subject("millrace", { p99Us, gatewayGrowthBytes }))]).map(({ isMet }) => isMet);
  expect(judged(999_000, 599e6)).toEqual([true, true]);
  expect(judged(1_001_000, 601e6)).toEqual([false, false]);
});

test("a subject with an invalid round meets no target", () => {
  const invalid = { ...subject("millrace", ...rates(100)), status: "invalid" as const };
  const [verdict] = judgeStream([part("rate", subject("floor", ...rates(100)), invalid)]);
  expect(verdict?.isMet).toBeNull();
});

test("a round is sound only if every stream was a 200 and came to its end", () => {
  expect(streamProblemOf(round({}))).toBeNull();
  expect(streamProblemOf(round({ statuses: { 200: 9, 503: 1 } }))).toBe("1 × status 503");
  expect(streamProblemOf(round({ errors: { "stream without an end": 2 } }))).toBe(
    "2 × stream without an end",
  );
  expect(streamProblemOf(round({ messages: 0 }))).toBe("no message arrived");
});
