import { systemClock } from "./clock.ts";
import type { Clock } from "./clock.ts";

/** Resolves with the promise, or with null when that takes longer than `ms`. Leaves no timer behind. */
export async function within<T>(
  ms: number,
  promise: Promise<T>,
  clock: Pick<Clock, "after"> = systemClock,
): Promise<T | null> {
  const { promise: late, resolve } = Promise.withResolvers<null>();
  const timer = clock.after(ms, () => resolve(null));
  try {
    return await Promise.race([promise, late]);
  } finally {
    timer.cancel();
  }
}
