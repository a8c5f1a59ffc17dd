import { describe, expect, test } from "vitest";
import { expectedStartAt, type QueuePace } from "../../../src/model/queue-pace.ts";
import { verifies } from "../../verifies.ts";

const NOW = 1_000_000;
const pace = (changes: Partial<QueuePace>): QueuePace => ({
  departures: [],
  meanRunMs: 0,
  capacity: 2,
  ...changes,
});
const every = (ms: number, count: number, runs = 1) =>
  Array.from({ length: count }, (_, i) => ({ at: NOW - (count - 1 - i) * ms, runs }));

describe("when a waiting run will begin", () => {
  verifies("queue.expected", "is reckoned from how fast runs before it have begun lately", () => {
    const departures = every(500, 5);
    expect(expectedStartAt(1, pace({ departures }), NOW)).toBe(NOW + 500);
    expect(expectedStartAt(10, pace({ departures }), NOW)).toBe(NOW + 5_000);
    // Four at a time are four times as fast, whatever a single run takes.
    const fours = every(500, 5, 4);
    expect(expectedStartAt(8, pace({ departures: fours, meanRunMs: 60_000 }), NOW)).toBe(NOW + 1_000);
  });

  verifies("queue.expected", "or from the time that a run takes, before enough have begun", () => {
    expect(expectedStartAt(4, pace({ meanRunMs: 1_000 }), NOW)).toBe(NOW + 2_000);
    expect(expectedStartAt(4, pace({ meanRunMs: 1_000, departures: every(1, 2) }), NOW)).toBe(NOW + 2_000);
  });

  verifies("queue.expected", "is unknown while nothing has run", () => {
    expect(expectedStartAt(1, pace({}), NOW)).toBeNull();
    expect(expectedStartAt(1, pace({ meanRunMs: 1, capacity: 0 }), NOW)).toBeNull();
  });

  test("is further away the longer none has begun, and never past", () => {
    const departures = every(100, 10);
    const soon = expectedStartAt(5, pace({ departures }), NOW)!;
    const late = expectedStartAt(5, pace({ departures }), NOW + 60_000)!;
    expect(soon).toBe(NOW + 500);
    expect(late - NOW).toBeGreaterThanOrEqual(60_000);
    expect(expectedStartAt(1, pace({ departures: every(1, 3) }), NOW + 50)).toBeGreaterThanOrEqual(NOW + 50);
  });

  test("runs that left at the same moment have no speed to divide by", () => {
    const departures = every(0, 5);
    expect(expectedStartAt(3, pace({ departures }), NOW)).toBe(NOW);
  });
});
