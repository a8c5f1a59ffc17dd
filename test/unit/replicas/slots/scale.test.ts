import * as fc from "fast-check";
import { expect, test } from "vitest";
import { desiredReplicas, growsEarly } from "../../../../src/replicas/slots/scale.ts";
import { verifies } from "../../../verifies.ts";
import { sampleScaling } from "../sample-scaling.ts";

const idle = { calls: 0, callsPerSecond: 0, usedPercent: 0 };

test("an idle app wants no replica, and min_replicas where that is set", () => {
  expect(desiredReplicas(sampleScaling(), idle)).toBe(0);
  expect(desiredReplicas(sampleScaling({ minReplicas: 2, maxReplicas: 4 }), idle)).toBe(2);
});

test("calls are divided by replica_concurrency, rounded up", () => {
  const scaling = sampleScaling({ maxReplicas: 100, replicaConcurrency: 4 });
  const wanted = [1, 4, 5, 8, 9].map((calls) => desiredReplicas(scaling, { ...idle, calls }));
  expect(wanted).toEqual([1, 1, 2, 2, 3]);
});

test("a lower target of concurrency leaves slots free", () => {
  const scaling = sampleScaling({ maxReplicas: 100, replicaConcurrency: 10, scalingTarget: 50 });
  expect(desiredReplicas(scaling, { ...idle, calls: 10 })).toBe(2);
  expect(desiredReplicas(scaling, { ...idle, calls: 11 })).toBe(3);
});

test("scaling_buffer comes on top, within max_replicas", () => {
  const scaling = sampleScaling({ maxReplicas: 5, scalingBuffer: 2 });
  expect(desiredReplicas(scaling, idle)).toBe(2);
  expect(desiredReplicas(scaling, { ...idle, calls: 2 })).toBe(4);
  expect(desiredReplicas(scaling, { ...idle, calls: 4 })).toBe(5);
});

test("by requests per second, and never fewer than the calls in hand need", () => {
  const scaling = sampleScaling({
    maxReplicas: 100,
    scalingMetric: "requests_per_second",
    scalingTarget: 10,
  });
  expect(desiredReplicas(scaling, { ...idle, callsPerSecond: 25 })).toBe(3);
  expect(desiredReplicas(scaling, { ...idle, calls: 7, callsPerSecond: 25 })).toBe(7);
});

verifies(
  ["scaling.cpu", "scaling.memory", "scaling.hard-limits"],
  "by what replicas use of their allowance, within the bounds, and never fewer than the calls in hand need",
  () => {
    for (const scalingMetric of ["cpu_utilization", "memory_utilization"] as const) {
      const scaling = sampleScaling({
        maxReplicas: 5,
        replicaConcurrency: 2,
        scalingMetric,
        scalingTarget: 70,
      });
      const wanted = (calls: number, usedPercent: number): number =>
        desiredReplicas(scaling, { ...idle, calls, usedPercent });
      // One replica at 71 % is one too few, two at 70 % are enough, two at 35 % one too many.
      expect([70, 71, 140, 141, 10_000].map((used) => wanted(1, used))).toEqual([1, 2, 2, 3, 5]);
      expect([wanted(0, 0), wanted(1, 0), wanted(7, 71)]).toEqual([0, 1, 4]);
      // A measure that was not asked for decides nothing.
      expect(desiredReplicas(scaling, { ...idle, callsPerSecond: 1_000 })).toBe(0);
    }
    expect(desiredReplicas(sampleScaling({ maxReplicas: 5 }), { ...idle, usedPercent: 500 })).toBe(0);
  },
);

test("the number is always within its bounds and never falls with more calls", () => {
  const bounds = fc.record({
    minReplicas: fc.integer({ min: 0, max: 5 }),
    above: fc.integer({ min: 0, max: 20 }),
    replicaConcurrency: fc.integer({ min: 1, max: 50 }),
    scalingBuffer: fc.integer({ min: 0, max: 5 }),
    scalingTarget: fc.integer({ min: 1, max: 100 }),
    calls: fc.integer({ min: 0, max: 10_000 }),
  });
  fc.assert(
    fc.property(bounds, ({ above, calls, ...rest }) => {
      const maxReplicas = Math.max(1, rest.minReplicas + above);
      const scaling = sampleScaling({ ...rest, maxReplicas });
      const wanted = desiredReplicas(scaling, { ...idle, calls });
      expect(wanted).toBeGreaterThanOrEqual(rest.minReplicas);
      expect(wanted).toBeLessThanOrEqual(maxReplicas);
      expect(desiredReplicas(scaling, { ...idle, calls: calls + 1 })).toBeGreaterThanOrEqual(wanted);
      const slots = wanted * rest.replicaConcurrency;
      expect(wanted === maxReplicas || slots >= calls).toBe(true);
    }),
  );
});

test("only a buffer or a lower target lets a call ask for replicas while a slot is free", () => {
  expect(growsEarly(sampleScaling())).toBe(false);
  expect(growsEarly(sampleScaling({ scalingMetric: "cpu_utilization", scalingTarget: 50 }))).toBe(false);
  expect(growsEarly(sampleScaling({ scalingBuffer: 1 }))).toBe(true);
  expect(growsEarly(sampleScaling({ scalingTarget: 99 }))).toBe(true);
  // What is measured over an interval is looked at by a timer, not by calls.
  expect(growsEarly(sampleScaling({ scalingMetric: "requests_per_second" }))).toBe(false);
});
