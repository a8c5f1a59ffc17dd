import type { RunState } from "./run.ts";

/** How many runs of an app came to each state. */
export type RunCounts = Record<RunState, number>;

/** Counts runs by app and by the state they ended in, since it was made. */
export class RunTally {
  readonly byApp = new Map<number, RunCounts>();

  add(appNumber: number, state: RunState): void {
    let counts = this.byApp.get(appNumber);
    if (!counts) {
      counts = { queued: 0, running: 0, success: 0, failure: 0, cancelled: 0 };
      this.byApp.set(appNumber, counts);
    }
    counts[state] += 1;
  }
}
