import * as fc from "fast-check";
import { expect, test } from "vitest";
import { GAPS_MS, HORIZON_MS, nextWaitMs, parseRetryAfter } from "../../../../src/runs/webhooks/schedule.ts";
import { verifies } from "../../../verifies.ts";

const HOUR_MS = 3_600_000;
const plain = { retryAfterMs: null, gapsMs: GAPS_MS, random: () => 0.5 };

verifies("webhook.schedule", "the waits are the contract's, spread by a tenth, and can be others", () => {
  const waits = GAPS_MS.map((_, done) => nextWaitMs({ ...plain, attempts: done + 1 }));
  const seconds = [5, 30, 300, 1_800, 7_200, 18_000, 36_000, 86_400];
  expect(GAPS_MS[0]).toBe(0);
  expect(waits).toEqual([...seconds.map((s) => s * 1_000), null]);
  expect(nextWaitMs({ ...plain, attempts: 1, random: () => 0 })).toBe(4_500);
  expect(nextWaitMs({ ...plain, attempts: 1, random: () => 1 })).toBe(5_500);
  expect(nextWaitMs({ ...plain, gapsMs: [0, 20], attempts: 1 })).toBe(20);
  expect(nextWaitMs({ ...plain, gapsMs: [0, 20], attempts: 2 })).toBe(null);
});

test("a delivery sent again after its last attempt has the whole schedule before it", () => {
  const last = GAPS_MS.length;
  expect(nextWaitMs({ ...plain, attempts: last + 1 })).toBe(5_000);
  expect(nextWaitMs({ ...plain, attempts: 2 * last })).toBe(null);
});

verifies("webhook.retry-after", "Retry-After lengthens a wait up to 24 h and never shortens one", () => {
  expect(nextWaitMs({ ...plain, attempts: 1, retryAfterMs: 60_000, random: () => 0 })).toBe(60_000);
  expect(nextWaitMs({ ...plain, attempts: 1, retryAfterMs: 1_000 })).toBe(5_000);
  expect(nextWaitMs({ ...plain, attempts: 1, retryAfterMs: 99 * HOUR_MS, random: () => 0 })).toBe(
    24 * HOUR_MS,
  );
});

test("no wait is ever beyond the horizon", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 100 }),
      fc.option(fc.integer({ min: 0, max: 1e15 })),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (attempts, retryAfterMs, r) => {
        const waitMs = nextWaitMs({ attempts, retryAfterMs, gapsMs: [0, 1e12, 5], random: () => r });
        expect(waitMs ?? 0).toBeLessThan(HORIZON_MS);
        expect(waitMs ?? 0).toBeGreaterThanOrEqual(0);
      },
    ),
  );
});

const NOW = Date.parse("2030-01-01T00:00:00Z");

test.each([
  ["120", 120_000],
  [" 0 ", 0],
  ["999999999999", 24 * HOUR_MS],
  ["Tue, 01 Jan 2030 00:01:00 GMT", 60_000],
  ["Tue, 01 Jan 2030 00:00:00 GMT", 0],
  ["Mon, 31 Dec 2029 23:00:00 GMT", 0],
  ["Tue, 01 Jan 2036 00:00:00 GMT", 24 * HOUR_MS],
  ["-5", null],
  ["1.5", null],
  ["soon", null],
  ["", null],
  [undefined, null],
])("Retry-After: %s is %s ms", (text, expected) => {
  expect(parseRetryAfter(text, NOW)).toBe(expected);
});
