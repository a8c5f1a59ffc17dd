import * as fc from "fast-check";
import { expect, test } from "vitest";
import { backoffMs } from "../../../src/kit/backoff.ts";

test("waits double from the base", () => {
  const waits = [1, 2, 3, 4, 5].map((attempt) => backoffMs(attempt, 100, 60_000, () => 0.5));
  expect(waits).toEqual([100, 200, 400, 800, 1_600]);
});

test("the spread is a fifth to either side", () => {
  expect(backoffMs(1, 1_000, 60_000, () => 0)).toBe(800);
  expect(backoffMs(1, 1_000, 60_000, () => 1)).toBe(1_200);
});

test("no wait is over the maximum, and the longest waits are still spread", () => {
  expect(backoffMs(50, 100, 6_000, () => 1)).toBe(6_000);
  expect(backoffMs(50, 100, 6_000, () => 0)).toBe(4_000);
});

test("any attempt, however late, is a wait from 0 to the maximum", () => {
  const share = fc.double({ min: 0, max: 1, noNaN: true });
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 10_000 }),
      fc.integer({ min: 1, max: 86_400_000 }),
      share,
      (n, maxMs, r) => {
        const waitMs = backoffMs(n, 50, maxMs, () => r);
        expect(Number.isInteger(waitMs)).toBe(true);
        expect(waitMs).toBeGreaterThanOrEqual(0);
        expect(waitMs).toBeLessThanOrEqual(maxMs);
      },
    ),
  );
});
