import { expect, test } from "vitest";
import { CrashLoop } from "../../../src/replicas/crash-loop.ts";

const failure = { message: "ImportError: x", traceback: "…" };

/** The waits after each of so many failures, each replica started when the one before allowed it. */
function waits(loop: CrashLoop, count: number): number[] {
  let now = 1_000;
  return Array.from({ length: count }, () => {
    const startedAt = now;
    now += 10;
    loop.record(startedAt, now, null);
    const waitMs = loop.waitMs(now);
    now += waitMs;
    return waitMs;
  });
}

test("the first crash costs no wait, the next ones wait twice as long each time, at most 30 s", () => {
  const gaps = waits(new CrashLoop(), 12);
  expect(gaps[0]).toBe(0);
  // Each is spread by a fifth to both sides.
  expect(gaps[1]).toBeGreaterThanOrEqual(400);
  expect(gaps[1]).toBeLessThanOrEqual(600);
  expect(gaps[3]).toBeGreaterThanOrEqual(1_600);
  expect(gaps[3]).toBeLessThanOrEqual(2_400);
  expect(Math.max(...gaps)).toBeLessThanOrEqual(30_000);
  expect(gaps.at(-1)).toBeGreaterThan(15_000);
});

test("an import that fails waits from the first time, and says why", () => {
  const loop = new CrashLoop();
  loop.record(0, 10, failure);
  expect(loop.waitMs(10)).toBeGreaterThan(0);
  expect(loop.initFailure).toBe(failure);
});

test("replicas that were there at the last failure count with it", () => {
  const loop = new CrashLoop();
  const alone = new CrashLoop();
  alone.record(0, 10, failure);
  for (let replica = 0; replica < 8; replica++) loop.record(replica, 10 + replica, failure);
  expect(loop.waitMs(10)).toBeLessThan(2 * alone.waitMs(10));
});

test("a call answered forgives everything", () => {
  const loop = new CrashLoop();
  waits(loop, 6);
  expect(loop.hasFailed).toBe(true);
  loop.forgive();
  expect(loop.hasFailed).toBe(false);
  expect(loop.waitMs(0)).toBe(0);
  loop.record(100_000, 100_010, null);
  expect(loop.waitMs(100_010)).toBe(0);
});

test("the wait runs out with time", () => {
  const loop = new CrashLoop();
  loop.record(0, 0, failure);
  const waitMs = loop.waitMs(0);
  expect(loop.waitMs(waitMs - 1)).toBe(1);
  expect(loop.waitMs(waitMs)).toBe(0);
  expect(loop.waitMs(waitMs + 100)).toBe(0);
});
