import type { Clock } from "./clock.ts";

/**
 * The time of day as it was at this call, and from then on by the monotonic clock: when somebody sets the
 * machine's clock, nothing is suddenly late or due again.
 */
export function steady(clock: Clock): Clock {
  const start = clock.now() - clock.monotonic();
  return {
    now: () => Math.round(start + clock.monotonic()),
    monotonic: () => clock.monotonic(),
    after: (ms, act) => clock.after(ms, act),
    every: (ms, act) => clock.every(ms, act),
  };
}
