import { expect } from "vitest";
import { bestBy, type BatchingFigures, type Measured } from "../../../bench/batching/batching.ts";
import { batchingText } from "../../../bench/batching/batching-report.ts";
import { judgeBatching } from "../../../bench/batching/batching-targets.ts";
import { bestOf, type BatchingRound } from "../../../bench/batching/subjects.ts";
import type { Machine } from "../../../bench/machine.ts";
import { verifies } from "../../verifies.ts";

const MACHINE: Machine = {
  cpu: "a processor",
  cores: 2,
  memoryGb: 24,
  system: "Linux",
  node: "v24",
  python: "3.12",
  loadBefore: 0,
};

function round(callsPerSecond: number, latencyMs = 1): BatchingRound {
  const us = latencyMs * 1000;
  const statuses = { 200: callsPerSecond };
  return {
    calls: callsPerSecond,
    callsPerSecond,
    p50Us: us,
    p95Us: us,
    p99Us: us,
    statuses,
    errors: {},
    cpuUs: 1,
  };
}

function subject(id: string, ...rates: number[]): Measured {
  return {
    id,
    name: id,
    note: null,
    status: "measured",
    problem: null,
    rounds: rates.map((rate) => round(rate)),
  };
}

/** Ours at 1,000 calls/s, and the others, with latencies of 10 ms. */
function figures(others: {
  single: number;
  fixed: number;
  peer: number;
  lone: number;
  p95: number;
  beyond: number;
}) {
  const paced = { peer: "ray", share: 0.1, perSecond: 10, theirs: [round(10, 10)] } as const;
  const all: BatchingFigures = {
    subjects: [
      subject("untuned", 1_000),
      subject("single", others.single),
      subject("fixed", others.fixed),
      subject("ray", others.peer),
    ],
    lone: { single: [round(100, 10)], untuned: [round(100, others.lone)] },
    paced: [{ ...paced, ours: [round(10, others.p95)] }],
    overload: { most: [round(1_000)], beyond: [round(others.beyond)] },
    curves: [],
    problem: null,
  };
  return all;
}

verifies("bench.verdicts", "batches are held against single calls, fixed policies and peers", () => {
  const met = (given: Parameters<typeof figures>[0]) =>
    judgeBatching(figures(given)).map(({ isMet }) => isMet);
  const kept = { single: 125, fixed: 1_052, peer: 1_000, lone: 10.5, p95: 10, beyond: 950 };
  const missed = { single: 126, fixed: 1_053, peer: 1_001, lone: 10.6, p95: 10.1, beyond: 949 };
  // LitServe and BentoML were not measured.
  expect(met(kept)).toEqual([true, true, true, null, null, true, true, true]);
  expect(met(missed)).toEqual([false, false, false, null, null, false, false, false]);
});

verifies("bench.verdicts", "what was not measured of batches meets no target, and is named", () => {
  const none: BatchingFigures = {
    subjects: [
      {
        ...subject("ray"),
        name: "Ray Serve",
        status: "skipped",
        problem: "it is not installed: pip install ray",
      },
    ],
    lone: { single: [], untuned: [] },
    paced: [],
    overload: { most: [], beyond: [] },
    curves: [],
    problem: "no service",
  };
  const verdicts = judgeBatching(none);
  expect(verdicts.map(({ isMet }) => isMet)).toEqual([null, null, null, null, null, null, null]);
  const text = batchingText(MACHINE, { rounds: 1, measureMs: 1_000 }, none, verdicts);
  expect(text).toContain(
    "Ray Serve                             skipped: it is not installed: pip install ray",
  );
  expect(text).toContain("failed: no service");
});

verifies("bench.verdicts", "of fixed policies the one is taken that answered most", () => {
  expect(bestBy([900, 5, 1_000], (rate) => rate)).toBe(1_000);
  expect(bestBy([900, 5, 1_000], (rate) => (rate > 950 ? null : rate))).toBe(900);
  expect(bestBy([900], () => null)).toBeNull();
});

verifies(
  "bench.verdicts",
  "of a peer's settings that hardly differ, the one that waits least is taken",
  () => {
    const way = (waitMs: number) => ({ size: 64, waitMs, variant: "" });
    const rated = [
      { way: way(1), callsPerSecond: 900 },
      { way: way(5), callsPerSecond: 985 },
      { way: way(20), callsPerSecond: 1_000 },
    ];
    expect(bestOf(rated, "a peer")).toEqual(way(5));
    expect(() => bestOf([], "a peer")).toThrow("a peer answers all calls with no setting");
  },
);
