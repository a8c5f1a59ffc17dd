import * as fc from "fast-check";
import { expect, test } from "vitest";
import { backoffMs, retry } from "../../../src/kit/retry.ts";
import { HandClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";

/** Work that fails so often before it gives its word. */
function failing(times: number): { readonly work: () => Promise<string>; readonly tries: () => number } {
  let tries = 0;
  return {
    work: async () => {
      tries += 1;
      if (tries <= times) throw new Error(`no ${tries}`);
      return "done";
    },
    tries: () => tries,
  };
}

test("it is tried until it works, with a wait after each failure", async () => {
  const clock = new HandClock();
  const { work, tries } = failing(2);
  const heard: string[] = [];
  const done = retry(work, {
    clock,
    delayMs: (failures) => failures * 100,
    shouldRetry: (error) => heard.push((error as Error).message) > 0,
  });
  await until("it waits", () => clock.pending === 1);
  clock.advance(99);
  expect(tries()).toBe(1);
  clock.advance(1);
  await until("it waits again", () => clock.pending === 1);
  clock.advance(199);
  expect(tries()).toBe(2);
  clock.advance(1);
  expect(await done).toBe("done");
  expect(heard).toEqual(["no 1", "no 2"]);
});

test("it ends without a word where it is not to go on, and with what shouldRetry throws", async () => {
  const parts = { clock: new HandClock(), delayMs: () => 1_000 };
  expect(await retry(failing(1).work, { ...parts, shouldRetry: () => false })).toBeNull();
  const rethrow = (error: unknown): never => {
    throw error;
  };
  await expect(retry(failing(1).work, { ...parts, shouldRetry: rethrow })).rejects.toThrow("no 1");
});

test("a signal cuts the wait short, and one more try is made", async () => {
  const clock = new HandClock();
  const stopping = new AbortController();
  const { signal } = stopping;
  const { work, tries } = failing(9);
  const done = retry(work, { clock, delayMs: () => 1_000, shouldRetry: () => !signal.aborted, signal });
  await until("it waits", () => clock.pending === 1);
  stopping.abort();
  expect(await done).toBeNull();
  expect(tries()).toBe(2);
});

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
