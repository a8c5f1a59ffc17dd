import * as fc from "fast-check";
import { expect, test } from "vitest";
import { MinuteLimiter } from "../../../src/kit/minute-limiter.ts";
import { HandClock } from "../../support/clocks.ts";

const MINUTE_MS = 60_000;

test("in no minute, wherever it begins, are there more than it lets through; the wait it tells is enough", () => {
  const calls = fc.array(fc.integer({ min: 0, max: 25_000 }), { maxLength: 200 });
  fc.assert(
    fc.property(calls, fc.integer({ min: 1, max: 7 }), (gaps, max) => {
      const clock = new HandClock();
      const limiter = new MinuteLimiter(clock);
      const taken: number[] = [];
      for (const gap of gaps) {
        clock.advance(gap);
        const waitMs = limiter.take("ada", max);
        const recent = taken.filter((at) => clock.monotonic() - at < MINUTE_MS);
        expect(waitMs > 0).toBe(recent.length >= max);
        const oldest = recent[recent.length - max];
        expect(waitMs).toBe(oldest === undefined ? 0 : oldest + MINUTE_MS - clock.monotonic());
        if (waitMs === 0) taken.push(clock.monotonic());
      }
    }),
  );
});

test("each key has its own, and a limit that is lowered counts what was", () => {
  const clock = new HandClock();
  const limiter = new MinuteLimiter(clock);
  for (let i = 0; i < 5; i++) expect(limiter.take("ada", 5)).toBe(0);
  expect(limiter.take("ada", 5)).toBe(MINUTE_MS);
  expect(limiter.take("grace", 5)).toBe(0);
  clock.advance(1_000);
  expect(limiter.take("ada", 2)).toBe(59_000);
  expect(limiter.take("ada", 6)).toBe(0);
});

test("it forgets who made no call for a minute", () => {
  const clock = new HandClock();
  const limiter = new MinuteLimiter(clock);
  for (let i = 0; i < 1_000; i++) limiter.take(`user ${i}`, 1);
  expect(limiter.size).toBe(1_000);
  clock.advance(MINUTE_MS);
  for (let i = 0; i < 600; i++) limiter.take("one", 1_000);
  expect(limiter.size).toBe(1);
});
