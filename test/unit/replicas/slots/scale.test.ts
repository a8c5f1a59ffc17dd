import * as fc from "fast-check";
import { expect, test } from "vitest";
import { desiredReplicas, growsEarly } from "../../../../src/replicas/slots/scale.ts";
import { sampleScaling } from "../sample-scaling.ts";

const idle = { calls: 0, callsPerSecond: 0 };

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
  expect(desiredReplicas(scaling, { calls: 0, callsPerSecond: 25 })).toBe(3);
  expect(desiredReplicas(scaling, { calls: 7, callsPerSecond: 25 })).toBe(7);
});

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

test("only a buffer, a rate or a lower target asks for replicas while a slot is free", () => {
  expect(growsEarly(sampleScaling())).toBe(false);
  expect(growsEarly(sampleScaling({ scalingMetric: "cpu_utilization", scalingTarget: 50 }))).toBe(false);
  expect(growsEarly(sampleScaling({ scalingBuffer: 1 }))).toBe(true);
  expect(growsEarly(sampleScaling({ scalingTarget: 99 }))).toBe(true);
  expect(growsEarly(sampleScaling({ scalingMetric: "requests_per_second" }))).toBe(true);
});
