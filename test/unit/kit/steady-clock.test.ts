import { expect, test } from "vitest";
import { systemClock } from "../../../src/kit/clock.ts";
import { steady } from "../../../src/kit/steady-clock.ts";

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
