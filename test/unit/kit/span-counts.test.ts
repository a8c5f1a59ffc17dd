import { expect, test } from "vitest";
import { SpanCounts } from "../../../src/kit/span-counts.ts";

test("a span falls into the first class that holds it, the longest into none", () => {
  const spans = new SpanCounts([1, 10, 100]);
  for (const ms of [0, 1, 1.5, 10, 99, 101, 5_000]) spans.add(ms);
  expect(spans.counts).toEqual([2, 2, 1]);
  expect([spans.count, spans.sumMs]).toEqual([7, 5_212.5]);
});
