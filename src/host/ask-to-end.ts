import { childrenOf } from "./process-tree.ts";
import { readStat } from "./proc-stat.ts";

/** Of a keeper's processes, the one that it was started for: the first below the last keeper. 0 if there is none. */
export function wardBelow(keeper: number, keepers: number): number {
  let pid = keeper;
  for (let level = 0; level < keepers; level++) {
    const oldest = childrenOf(pid)
      .map((child) => ({ child, startedAt: startOf(child) }))
      .toSorted((a, b) => a.startedAt - b.startedAt)[0];
    if (!oldest) return 0;
    pid = oldest.child;
  }
  return pid;
}

/** Asks a process to end by itself: unlike its keeper, it may take its time. */
export function askToEnd(pid: number): void {
  if (pid <= 1) return;
  try {
    process.kill(pid, "SIGTERM");
  } catch {
    // Gone; or another user's, and then its keeper ends it.
  }
}

/** When a process began, by the kernel's count; one that has ended comes last. */
function startOf(pid: number): number {
  try {
    return readStat(`${pid}`, "/proc").startedTicks;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
