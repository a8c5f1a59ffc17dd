import { expect, test } from "vitest";
import { CLASS_RATIO, SpanClasses, SpanCounts } from "../../../src/kit/histograms.ts";

test("a span falls into the first class that holds it, the longest into none", () => {
  const spans = new SpanCounts([1, 10, 100]);
  for (const ms of [0, 1, 1.5, 10, 99, 101, 5_000]) spans.add(ms);
  expect(spans.counts).toEqual([2, 2, 1]);
  expect([spans.count, spans.sumMs]).toEqual([7, 5_212.5]);
});

const classOf = (ms: number): number => Math.floor(Math.log(ms) / Math.log(CLASS_RATIO));

test("percentiles of a thousand different spans are at most 2.5 % off", () => {
  const spans = new SpanClasses();
  for (let ms = 1; ms <= 1_000; ms++) spans.add(classOf(ms), 1);
  for (const share of [0.5, 0.95, 0.99]) {
    expect(Math.abs((spans.percentile(share) ?? 0) / (share * 1_000) - 1)).toBeLessThan(0.025);
  }
});

test("one long span among a hundred is the p100, not the p99", () => {
  const spans = new SpanClasses();
  spans.add(classOf(2), 99);
  spans.add(classOf(60_000), 1);
  expect(spans.percentile(0.99)).toBeLessThan(2.1);
  expect(spans.percentile(1)).toBeGreaterThan(58_000);
});

test("of none there is no percentile", () => {
  expect(new SpanClasses().percentile(0.5)).toBeNull();
});
