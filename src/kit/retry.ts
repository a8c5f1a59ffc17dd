import { type Clock, pause } from "./clock.ts";

type RetryOptions = {
  readonly clock: Pick<Clock, "after">;
  /** The wait after that many failures. */
  readonly delayMs: (failures: number) => number;
  /** Called at each failure; false ends the retries. */
  readonly shouldRetry: (error: unknown) => boolean;
  /** Cuts the current wait short: one more attempt follows. */
  readonly signal?: AbortSignal;
};

/** Repeats the work until it succeeds; null if `shouldRetry` ended the retries. */
export async function retry<Result>(
  work: () => Promise<Result>,
  { clock, delayMs, shouldRetry, signal }: RetryOptions,
): Promise<Result | null> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await work();
    } catch (error) {
      if (!shouldRetry(error)) return null;
    }
    await pause(clock, delayMs(failures), signal);
  }
}

const SPREAD = 0.2;

/** The wait before try number `attempt` (from 1): doubling from `baseMs`, spread by ±20 %, never over `maxMs`. */
export function backoffMs(
  attempt: number,
  baseMs: number,
  maxMs: number,
  random: () => number = Math.random,
): number {
  // The maximum leaves room for the spread: a hard cut would align the longest waits.
  const plain = Math.min(maxMs / (1 + SPREAD), baseMs * 2 ** (attempt - 1));
  return Math.round(plain * (1 - SPREAD + 2 * SPREAD * random()));
}
