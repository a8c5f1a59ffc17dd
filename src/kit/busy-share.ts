import { performance } from "node:perf_hooks";

/** Returns a function that gives the part of the time since its last call that this thread was at work, from 0 to 1. */
export function busyShare(): () => number {
  let last = performance.eventLoopUtilization();
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, last);
    last = now;
    return utilization;
  };
}

/** A thread that is busy for less of the time has nothing to do that somebody would notice. */
export const CALM_SHARE = 0.05;
