import type { Clock } from "./clock.ts";

/** Resolves after so many milliseconds of that clock, or as soon as the signal says that nobody waits any more. */
export async function pause(clock: Pick<Clock, "after">, ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return;
  await new Promise<void>((resolve) => {
    const end = (): void => {
      timer.cancel();
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = clock.after(ms, end);
    signal?.addEventListener("abort", end);
  });
}
