import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  endOfAll,
  hasKeyLimits,
  nextRoomAt,
  roomIn,
  type Starts,
  withStarts,
} from "../../../src/model/queue-limits.ts";
import { verifies } from "../../verifies.ts";

const NOW = Date.UTC(2026, 0, 2);
const RATE = { count: 3, periodSeconds: 10 };

verifies(["queue.rate", "queue.key-rate"], "no period has more starts than the rate allows", () => {
  const rates = fc.record({
    count: fc.integer({ min: 1, max: 9 }),
    periodSeconds: fc.constantFrom(1, 1.5, 7, 60),
  });
  const gaps = fc.array(fc.integer({ min: 0, max: 3_000 }), { minLength: 20, maxLength: 120 });
  fc.assert(
    fc.property(rates, gaps, fc.nat(1_000), (rate, waits, offset) => {
      let now = NOW + offset;
      let starts: Starts = [];
      const begun: number[] = [];
      for (const waitMs of waits) {
        now += waitMs;
        const room = roomIn(starts, rate, now);
        if (room === 0) expect(nextRoomAt(starts, rate, now)).toBeGreaterThan(now);
        for (let i = 0; i < room; i++) begun.push(now);
        if (room > 0) starts = withStarts(starts, rate, now, room);
      }
      const periodMs = rate.periodSeconds * 1000;
      begun.forEach((at, i) => {
        const within = begun.slice(i).filter((later) => later < at + periodMs);
        expect(within.length).toBeLessThanOrEqual(rate.count);
      });
      // As many as it allows, but for a fiftieth of the period.
      expect(starts.length).toBeLessThanOrEqual(52);
    }),
  );
});

test("there is room again when the earliest starts do not count any more", () => {
  const starts = withStarts(withStarts([], RATE, NOW, 2), RATE, NOW + 5_000, 1);
  expect(roomIn(starts, RATE, NOW + 5_000)).toBe(0);
  const next = nextRoomAt(starts, RATE, NOW + 5_000);
  expect(next - NOW).toBe(10_200);
  expect([roomIn(starts, RATE, next - 1), roomIn(starts, RATE, next)]).toEqual([0, 2]);
  expect(nextRoomAt(starts, RATE, next)).toBe(next);
  expect(endOfAll(starts, RATE) - NOW).toBe(15_200);
  expect(roomIn(starts, RATE, endOfAll(starts, RATE))).toBe(3);
});

test("starts of a clock that was ahead count for no longer than a period", () => {
  const starts = withStarts([], RATE, NOW + 3_600_000, 3);
  expect(roomIn(starts, RATE, NOW)).toBe(0);
  expect(nextRoomAt(starts, RATE, NOW)).toBe(NOW + 10_200);
});

test("only what is about keys limits them", () => {
  const none = {
    concurrencyLimit: 1,
    concurrencyKeyLimit: null,
    rateLimit: RATE,
    concurrencyKeyRateLimit: null,
    maxBacklog: 1,
  };
  expect(hasKeyLimits(undefined)).toBe(false);
  expect(hasKeyLimits(none)).toBe(false);
  expect(hasKeyLimits({ ...none, concurrencyKeyLimit: 1 })).toBe(true);
  expect(hasKeyLimits({ ...none, concurrencyKeyRateLimit: RATE })).toBe(true);
});
