import type { Clock } from "./clock.ts";
import { pause } from "./pause.ts";

export type Insistence = {
  readonly clock: Pick<Clock, "after">;
  /** How long to wait after so many failures. */
  readonly gapMs: (failures: number) => number;
  /** Hears of each failure, and says whether to go on. */
  readonly goesOn: (error: unknown) => boolean;
  /** Cuts a wait short: the last try, if that fails too and it does not go on then. */
  readonly signal?: AbortSignal;
};

/** Does it until it works, and resolves with what it gave; null when it was given up. */
export async function insist<Result>(
  work: () => Promise<Result>,
  { clock, gapMs, goesOn, signal }: Insistence,
): Promise<Result | null> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await work();
    } catch (error) {
      if (!goesOn(error)) return null;
    }
    await pause(clock, gapMs(failures), signal);
  }
}
