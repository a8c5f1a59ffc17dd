import { array, assert, integer, property } from "fast-check";
import { expect, test } from "vitest";
import { ExponentialCounts } from "../../../src/kit/exponential-counts.ts";

/** How many values each class should have, by its definition. */
function expected(values: readonly number[], { scale, offset, counts }: ExponentialCounts): number[] {
  const bound = (index: number): number => 2 ** (index / 2 ** scale);
  return counts.map(
    (_, i) => values.filter((value) => value > bound(offset + i) && value <= bound(offset + i + 1)).length,
  );
}

const filled = (values: readonly number[]): ExponentialCounts => {
  const counts = new ExponentialCounts();
  for (const value of values) counts.add(value);
  return counts;
};
const total = ({ counts, zeros }: ExponentialCounts): number =>
  counts.reduce((sum, count) => sum + count, zeros);

test("each value is in the class that its definition says", () => {
  const values = [0.0013, 0.3, 0.31, 0.9, 1.1, 7, 7.01];
  const counts = filled([...values, 0, -1]);
  expect(counts.counts).toEqual(expected(values, counts));
  expect([counts.zeros, total(counts)]).toEqual([2, 9]);
});

test("powers of two are the upper bounds of their classes, at any scale", () => {
  const counts = filled([0.25, 0.5, 1, 2, 4]);
  const first = -2 * 2 ** counts.scale - 1;
  expect(counts.offset).toBe(first);
  expect(counts.counts.flatMap((count, i) => (count > 0 ? [first + i] : []))).toEqual(
    [-2, -1, 0, 1, 2].map((power) => power * 2 ** counts.scale - 1),
  );
});

test("from a microsecond to twelve hours there are no more than 160 classes, and no value is lost", () => {
  const span = integer({ min: 1, max: 43_200_000_000 }).map((microseconds) => microseconds / 1e6);
  assert(
    property(array(span, { maxLength: 200 }), array(span, { maxLength: 200 }), (some, others) => {
      const counts = filled(some);
      counts.addAll(filled(others));
      expect(counts.counts.length).toBeLessThanOrEqual(160);
      expect(counts.scale).toBeGreaterThanOrEqual(2);
      expect(total(counts)).toBe(some.length + others.length);
      // The sum of two is what one with all values would be, or coarser.
      const all = filled([...some, ...others]);
      while (all.scale > counts.scale)
        all.addAll(Object.assign(new ExponentialCounts(), { scale: all.scale - 1 }));
      expect([counts.scale, counts.offset, counts.counts]).toEqual([all.scale, all.offset, all.counts]);
    }),
  );
});
