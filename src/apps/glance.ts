import type { Glance } from "../model/app.ts";
import type { LiveApp } from "./versions/live-app.ts";

/** How an app does, of which these are the versions that may have replicas, the current one first; null for none. */
export function glanceOf(versions: readonly LiveApp[]): Glance | null {
  const [current] = versions;
  if (!current) return null;
  const replicas = { starting: 0, ready: 0, draining: 0 };
  let [waiting, running, oldestWaitMs] = [0, 0, 0];
  for (const { pool } of versions) {
    waiting += pool.slots.waiting;
    oldestWaitMs = Math.max(oldestWaitMs, pool.slots.oldestWaitMs);
    for (const { state, calls } of pool.replicas) {
      if (state !== "gone") replicas[state] += 1;
      running += calls.size;
    }
  }
  const { app, version, pool } = current;
  return {
    appNumber: app.number,
    version: { number: version.number, buildId: version.id },
    state: stateOf(current),
    replicas,
    waiting,
    running,
    oldestWaitMs,
    // All versions of an app share their counts.
    coldStarts: pool.counts.coldStarts,
  };
}

function stateOf({ pool }: LiveApp): Glance["state"] {
  const states = [...pool.replicas].map(({ state }) => state);
  if (states.includes("ready")) return "ready";
  if (states.includes("starting")) return "notready";
  return pool.fleet.startFailure ? "error" : "cold";
}
