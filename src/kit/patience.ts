import { systemClock } from "./clock.ts";
import type { Clock } from "./clock.ts";

const STEP_MS = 250;

/**
 * Calls `act` after so many milliseconds in which this process was running. A time in which it stood still (stopped,
 * suspended, or with its event loop blocked) counts as one step of 250 ms, and what arrived in it is read first: an
 * ordinary timer would be overdue, and give up on an answer that is there. Returns what cancels it.
 */
export function afterRunning(
  ms: number,
  act: () => void,
  clock: Pick<Clock, "after"> = systemClock,
): () => void {
  let left = Math.ceil(ms / STEP_MS);
  let turn: NodeJS.Immediate | undefined;
  const timer = clock.after(Math.min(ms, STEP_MS), () => {
    left -= 1;
    // After a turn of the event loop.
    turn = setImmediate(() => (left > 0 ? timer.restart() : act()));
  });
  return () => {
    timer.cancel();
    clearImmediate(turn);
  };
}
