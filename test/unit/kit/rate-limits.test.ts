import * as fc from "fast-check";
import { expect, test } from "vitest";
import { AttemptLimiter, MinuteLimiter } from "../../../src/kit/rate-limits.ts";
import { HandClock } from "../../support/clocks.ts";

test("a burst is let through, then one each gap, for each key alone", () => {
  const clock = new HandClock(0);
  const limiter = new AttemptLimiter({ burst: 3, gapMs: 100 }, clock);
  const take = (key = "a") => limiter.take(key);
  expect([take(), take(), take(), take()]).toEqual([0, 0, 0, 100]);
  expect(take("b")).toBe(0);
  clock.nowMs = 60;
  expect(take()).toBe(40);
  clock.nowMs = 100;
  expect([take(), take()]).toEqual([0, 100]);
  clock.nowMs = 10_000;
  expect([take(), take(), take(), take()]).toEqual([0, 0, 0, 100]);
});

test("what is given back can be taken again, and no more than that", () => {
  const clock = new HandClock(0);
  const limiter = new AttemptLimiter({ burst: 2, gapMs: 100 }, clock);
  for (let i = 0; i < 10; i++) {
    expect(limiter.take("a")).toBe(0);
    limiter.giveBack("a");
  }
  expect([limiter.take("a"), limiter.take("a"), limiter.take("a")]).toEqual([0, 0, 100]);
  limiter.giveBack("never taken");
  expect([1, 2, 3].map(() => limiter.take("never taken"))).toEqual([0, 0, 100]);
});

test("many keys push out the one longest unused, and memory stays bounded", () => {
  const clock = new HandClock(0);
  const limiter = new AttemptLimiter({ burst: 1, gapMs: 1e9 }, clock);
  limiter.take("first");
  for (let i = 0; i < 9_999; i++) limiter.take(`key ${i}`);
  expect(limiter.take("first")).toBeGreaterThan(0);
  limiter.take("one more");
  expect(limiter.take("first")).toBe(0);
});

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
