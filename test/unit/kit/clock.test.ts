import { expect, test } from "vitest";
import { systemClock } from "../../../src/kit/clock.ts";

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
