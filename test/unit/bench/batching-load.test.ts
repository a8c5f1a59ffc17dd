import { expect, test } from "vitest";
import { dueTimes } from "../../../bench/batching/batching-job.ts";
import { plotOf } from "../../../bench/batching/plots.ts";
import { cross, FIXED_SETTINGS } from "../../../bench/batching/settings.ts";

function first(count: number, perSecond: number): number[] {
  const times = dueTimes(perSecond);
  return Array.from({ length: count }, () => times.next().value as number);
}

test("calls at a rate are due at random times, the same for each subject", () => {
  const times = first(10_000, 500);
  expect(first(10_000, 500)).toEqual(times);
  expect(times.at(-1)).toBeGreaterThan(19_000);
  expect(times.at(-1)).toBeLessThan(21_000);
  // Of times at random, a third of all gaps is longer than usual.
  const long = times.filter((time, index) => time - (times[index - 1] ?? 0) > 2).length;
  expect(long / times.length).toBeCloseTo(1 / Math.E, 1);
});

test("there are twenty fixed policies", () => {
  expect(FIXED_SETTINGS).toHaveLength(20);
  expect(cross([1, 2], [3])).toEqual([
    { size: 1, waitMs: 3 },
    { size: 2, waitMs: 3 },
  ]);
});

test("a plot has a line for each series that was measured, and cuts what is beyond its top", () => {
  const point = (perSecond: number, p95Us: number) => ({
    perSecond,
    calls: 1,
    callsPerSecond: perSecond,
    p50Us: 1,
    p95Us,
    p99Us: 1,
    cpuUs: 1,
    statuses: {},
    errors: {},
  });
  const svg = plotOf(
    "Latency",
    [
      { id: "untuned", name: "Millrace", points: [point(100, 5_000), point(200, 900_000)] },
      { id: "ray", name: "Ray Serve", points: [] },
    ],
    { title: "calls", of: ({ perSecond }) => perSecond },
    { title: "p95 in ms", of: ({ p95Us }) => p95Us / 1000, most: 150 },
  );
  expect(svg.match(/<polyline/g)).toHaveLength(1);
  expect(svg).toContain(">Millrace<");
  expect(svg).not.toContain("Ray Serve");
  expect(svg).toContain(">150<");
  expect(svg).not.toContain("900");
});
