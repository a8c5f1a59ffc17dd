import { expect } from "vitest";
import { judgeAgainst } from "../../../bench/against.ts";
import type { SubjectResult, SyncRound } from "../../../bench/sync.ts";
import { verifies } from "../../verifies.ts";

function result(id: "before" | "millrace", callsPerSecond: number, cpuUs: number): SubjectResult {
  const round: SyncRound = { calls: 1, callsPerSecond, cpuUs, p50Us: 1, p99Us: 1, statuses: {}, errors: {} };
  return { id, name: id, note: null, status: "measured", problem: null, rounds: { 32: [round], 1: [] } };
}

verifies("bench.verdicts", "a checkout must not be slower than another, by the clock and by CPU time", () => {
  const met = (callsPerSecond: number, cpuUs: number) =>
    judgeAgainst([result("before", 1_000, 98), result("millrace", callsPerSecond, cpuUs)]).map(
      ({ isMet }) => isMet,
    );
  expect(met(980, 100)).toEqual([true, true]);
  expect(met(979, 101)).toEqual([false, false]);
  expect(judgeAgainst([]).map(({ isMet }) => isMet)).toEqual([null, null]);
});
