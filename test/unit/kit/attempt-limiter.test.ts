import { expect, test } from "vitest";
import { AttemptLimiter } from "../../../src/kit/attempt-limiter.ts";
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
