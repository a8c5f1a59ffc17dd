import { expect, test } from "vitest";
import { problemOf } from "../../../bench/load-job.ts";
import type { SubjectResult, SyncRound } from "../../../bench/sync.ts";
import { judgeSync } from "../../../bench/targets.ts";

function round(callsPerSecond: number, p50Us = 100): SyncRound {
  return { calls: 1, callsPerSecond, p50Us, p99Us: 200, statuses: { 200: 1 }, errors: {}, cpuUs: 50 };
}

function subject(id: SubjectResult["id"], rates: readonly number[], p50Us = 100): SubjectResult {
  const rounds = rates.map((rate) => round(rate, p50Us));
  return { id, name: id, note: null, status: "measured", problem: null, rounds: { 32: rounds, 1: rounds } };
}

test("targets are judged by the median of what both did in the same round, with the spread of the rounds", () => {
  const verdicts = judgeSync([
    subject("floor", [100, 90, 200], 100),
    subject("millrace", [70, 60, 80], 130),
    subject("fastapi", [40, 41, 42]),
  ]);
  expect(verdicts.map(({ value }) => value)).toEqual([60 / 90, 70 / 40, 1.3]);
  expect(verdicts.map(({ isMet }) => isMet)).toEqual([true, true, true]);
  expect(verdicts[0]?.spread).toEqual([0.4, 0.7]);
});

test("a missed target is marked as missed", () => {
  const verdicts = judgeSync([
    subject("floor", [100], 100),
    subject("millrace", [64], 141),
    subject("fastapi", [40]),
  ]);
  expect(verdicts.map(({ isMet }) => isMet)).toEqual([false, false, false]);
});

test("a subject with an invalid round meets no target", () => {
  const invalid = { ...subject("millrace", [100]), status: "invalid" as const };
  const verdicts = judgeSync([subject("floor", [100]), invalid, subject("fastapi", [10])]);
  expect(verdicts.map(({ isMet }) => isMet)).toEqual([null, null, null]);
});

test("a round is sound only if every answer was a 200", () => {
  expect(problemOf(round(1))).toBeNull();
  expect(problemOf({ ...round(1), statuses: { 200: 5, 503: 2 } })).toBe("2 × status 503");
  expect(problemOf({ ...round(1), errors: { reset: 1 } })).toBe("1 × reset");
  expect(problemOf({ ...round(1), calls: 0, statuses: {} })).toBe("no call was answered");
});
