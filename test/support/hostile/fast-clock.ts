import { type Clock, systemClock } from "../../../src/kit/clock.ts";

/** A clock by which every wait is so many times shorter: a hostile app is made to wait before each new start. */
export function fastClock(times: number): Clock {
  return {
    now: () => systemClock.now(),
    monotonic: () => systemClock.monotonic() * times,
    after: (ms, act) => systemClock.after(ms / times, act),
    every: (ms, act) => systemClock.every(ms / times, act),
  };
}
