import { expect, test } from "vitest";
import { Histogram } from "../../../bench/histogram.ts";

test("quantiles are exact to the microsecond below 65 ms", () => {
  const histogram = new Histogram();
  for (let us = 1; us <= 1000; us++) histogram.add(us);
  expect(histogram.count).toBe(1000);
  expect(histogram.quantileUs(0.5)).toBe(500);
  expect(histogram.quantileUs(0.99)).toBe(990);
  expect(histogram.quantileUs(1)).toBe(1000);
});

test("long latencies are never shown shorter than they were", () => {
  const histogram = new Histogram();
  histogram.add(10);
  histogram.add(2_500_400);
  histogram.add(1e12);
  expect(histogram.quantileUs(0.5)).toBe(2_501_000);
  expect(histogram.quantileUs(1)).toBe(65_536_000);
});

test("an empty histogram has no latency", () => {
  expect(new Histogram().quantileUs(0.5)).toBe(0);
});
