import { expect, test } from "vitest";
import { overload, Pace } from "../../../../src/replicas/slots/pace.ts";

/** A pace after calls of these lengths. */
function paceOf(...spans: readonly { count: number; runMs: number }[]): Pace {
  const pace = new Pace();
  for (const { count, runMs } of spans) for (let call = 0; call < count; call++) pace.add(runMs);
  return pace;
}

test("nothing is handed ahead before enough calls were seen", () => {
  expect(paceOf({ count: 63, runMs: 0.01 }).ahead).toBe(0);
  expect(paceOf({ count: 64, runMs: 0.01 }).ahead).toBeGreaterThan(0);
});

test("the slower the calls, the fewer go ahead; from a millisecond on none", () => {
  const ahead = [0.001, 0.05, 0.1, 0.3, 0.9, 1, 5].map((runMs) => paceOf({ count: 300, runMs }).ahead);
  expect(ahead).toEqual(ahead.toSorted((a, b) => b - a));
  expect(ahead[0]).toBe(31);
  expect(ahead.slice(-2)).toEqual([0, 0]);
});

test("one slow call in a hundred is allowed, more are not", () => {
  const fast = { count: 150, runMs: 0.01 };
  expect(paceOf(fast, { count: 2, runMs: 50 }, fast).ahead).toBeGreaterThan(0);
  expect(paceOf(fast, { count: 3, runMs: 50 }, { count: 100, runMs: 0.01 }).ahead).toBe(0);
});

test("slow calls are forgotten when 256 others came after them", () => {
  const slow = { count: 40, runMs: 20 };
  expect(paceOf(slow, { count: 250, runMs: 0.01 }).ahead).toBe(0);
  expect(paceOf(slow, { count: 256, runMs: 0.01 }).ahead).toBeGreaterThan(0);
});

test("the mean follows the latest calls", () => {
  expect(paceOf({ count: 1, runMs: 8 }).meanMs).toBe(8);
  expect(paceOf({ count: 2, runMs: 8 }, { count: 2, runMs: 4 }).meanMs).toBeCloseTo(6, 5);
  const { meanMs } = paceOf({ count: 1_000, runMs: 1 }, { count: 100, runMs: 9 });
  expect(meanMs).toBeGreaterThan(8.5);
  expect(meanMs).toBeLessThanOrEqual(9);
});

test("what a slot gets through follows the mean, and is nothing before the first call", () => {
  expect(paceOf().callsIn(20)).toBe(0);
  expect(paceOf({ count: 10, runMs: 4 }).callsIn(20)).toBeCloseTo(5, 5);
  expect(paceOf({ count: 10, runMs: 80 }).callsIn(20)).toBeCloseTo(0.25, 5);
});

test("who is refused may come again when those before him are served, within a minute", () => {
  const after = (waiting: number, slots: number, meanMs: number) =>
    overload("queue_full", { waiting, slots, meanMs }).retryAfterSeconds;
  expect(after(10, 2, 1000)).toBe(5);
  expect(after(0, 1, 1000)).toBe(1);
  expect(after(1000, 1, 60_000)).toBe(60);
});
