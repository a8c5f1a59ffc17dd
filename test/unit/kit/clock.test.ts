import { expect, test } from "vitest";
import { afterRunning, steady, systemClock, withTimeout } from "../../../src/kit/clock.ts";
import { HandClock } from "../../support/clocks.ts";
import { setImmediate as turn } from "node:timers/promises";
import { verifies } from "../../verifies.ts";

test("now is the time of day and monotonic never goes back", () => {
  const times = [Date.now(), systemClock.now(), Date.now()];
  expect(times.toSorted((a, b) => a - b)).toEqual(times);
  let last = systemClock.monotonic();
  for (let i = 0; i < 1_000; i += 1) {
    const next = systemClock.monotonic();
    expect(next).toBeGreaterThanOrEqual(last);
    last = next;
  }
});

test("what comes in time is given", async () => {
  expect(await withTimeout(1_000, Promise.resolve(7))).toBe(7);
});

test("what does not is null", async () => {
  const clock = new HandClock();
  const late = withTimeout(1_000, new Promise(() => {}), clock);
  clock.advance(1_000);
  expect(await late).toBeNull();
  expect(clock.pending).toBe(0);
});

test("a failure is a failure", async () => {
  await expect(withTimeout(1_000, Promise.reject(new Error("no")))).rejects.toThrow("no");
});

verifies("frozen.answers", "a time in which the process stood still counts as one step", async () => {
  const clock = new HandClock();
  let calls = 0;
  afterRunning(1_000, () => (calls += 1), clock);
  clock.advance(60_000);
  await turn();
  for (let step = 0; step < 2; step++) {
    clock.advance(250);
    await turn();
  }
  expect(calls).toBe(0);
  clock.advance(250);
  expect(calls).toBe(0);
  await turn();
  expect([calls, clock.pending]).toEqual([1, 0]);
});

verifies("frozen.answers", "what arrives in the last turn of the event loop is in time", async () => {
  const clock = new HandClock();
  let calls = 0;
  const cancel = afterRunning(100, () => (calls += 1), clock);
  clock.advance(60_000);
  cancel();
  await turn();
  expect([calls, clock.pending]).toEqual([0, 0]);
});

test("a steady clock begins at the time of day and is not moved by setting the clock", () => {
  const hand = { day: 1_000_000, span: 50 };
  const clock = steady({ ...systemClock, now: () => hand.day, monotonic: () => hand.span });
  expect(clock.now()).toBe(1_000_000);
  hand.day += 3_600_000;
  expect(clock.now()).toBe(1_000_000);
  hand.day = 0;
  hand.span += 1_234.4;
  expect(clock.now()).toBe(1_001_234);
  expect(clock.monotonic()).toBe(1_284.4);
});
