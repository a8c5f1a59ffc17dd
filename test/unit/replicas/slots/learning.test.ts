import * as fc from "fast-check";
import { expect, test } from "vitest";
import { DurationTrend } from "../../../../src/replicas/slots/learning.ts";

const number = (min: number, max: number) => fc.double({ min, max, noNaN: true });

function trendOf(executions: readonly (readonly [size: number, ms: number])[]): DurationTrend {
  const trend = new DurationTrend();
  for (const [size, ms] of executions) trend.add(size, ms);
  return trend;
}

test("nothing is known before the first execution, and only the whole while all have one size", () => {
  expect(trendOf([]).line).toBeNull();
  const { line } = trendOf([
    [8, 10],
    [8, 12],
  ]);
  expect(line?.perSizeMs).toBe(0);
  expect(line?.fixedMs).toBeCloseTo(11, 0);
});

test("a line is found again, whatever sizes it is seen at", () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 1_000 }), { minLength: 2, maxLength: 50 });
  fc.assert(
    fc.property(sizes, number(0.1, 100), number(0, 10), (seen, fixed, per) => {
      fc.pre(Math.max(...seen) > 1.5 * Math.min(...seen));
      const { line } = trendOf(seen.map((size) => [size, fixed + per * size]));
      const at = (size: number) => line!.fixedMs + line!.perSizeMs * size;
      for (const size of seen) expect(at(size)).toBeCloseTo(fixed + per * size, 0);
    }),
  );
});

test("a function that became faster is believed after some executions", () => {
  const trend = trendOf(Array.from({ length: 200 }, (_, i) => [1 + (i % 32), 50 + (i % 32)]));
  for (let i = 0; i < 200; i++) trend.add(1 + (i % 32), 5);
  expect(trend.line!.fixedMs + trend.line!.perSizeMs * 16).toBeLessThan(6);
});

test("neither part is ever negative or no number", () => {
  const execution = fc.tuple(fc.integer({ min: 0, max: 1_000_000 }), number(0, 1e6));
  fc.assert(
    fc.property(fc.array(execution, { minLength: 1, maxLength: 100 }), (seen) => {
      const { fixedMs, perSizeMs } = trendOf(seen).line!;
      expect(fixedMs).toBeGreaterThanOrEqual(-1e-6 * Math.max(1, ...seen.map(([, ms]) => ms)));
      expect(perSizeMs).toBeGreaterThanOrEqual(0);
    }),
  );
});
