import { expect } from "vitest";
import type { SubjectResult } from "../../../bench/sync.ts";
import { judgeWalls } from "../../../bench/walls-targets.ts";
import type { StartFigures, WallsFigures } from "../../../bench/walls.ts";
import { verifies } from "../../verifies.ts";

function subject(id: "millrace" | "walls", cpuUs: number): SubjectResult {
  const round = { calls: 1, callsPerSecond: 1, p50Us: 1, p99Us: 1, statuses: {}, errors: {}, cpuUs };
  return { id, name: id, note: null, status: "measured", problem: null, rounds: { 32: [round], 1: [] } };
}

function figures(calls: number, kept: number, first: number, problem: string | null = null): WallsFigures {
  const starts = (cpuMs: number) => {
    const round = (cpu: number): StartFigures[] => [{ ms: 1, cpuMs: cpu }];
    return { plain: round(10), walls: round(cpuMs) };
  };
  return {
    rounds: 1,
    level: "userns",
    sync: [subject("millrace", 100), subject("walls", calls)],
    keptTemplate: starts(kept),
    firstStart: starts(first),
    problem,
  };
}

verifies("bench.verdicts", "what walls cost is held against its targets, by processor time", () => {
  const met = (...given: Parameters<typeof figures>) =>
    judgeWalls(figures(...given)).map(({ isMet }) => isMet);
  expect(met(103, 15, 14)).toEqual([true, true, true]);
  expect(met(104, 15.1, 14.1)).toEqual([false, false, false]);
  expect(met(100, 10, 10, "it did not start")).toEqual([null, null, null]);
});
