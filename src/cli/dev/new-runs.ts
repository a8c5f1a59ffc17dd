import { setTimeout as sleep } from "node:timers/promises";
import { isFinal } from "../../model/run.ts";
import type { Run } from "../../model/run.ts";
import type { Store } from "../../store/store.ts";

const LOOK_MS = 200;
const PAGE = 100;
/** How far back an unfinished run is still waited for. */
const REMEMBERED = 1_000;

/** Yields each run of an app when it has ended, those before the start left out; ends at the signal. */
export async function* endedRuns(
  store: Store,
  app: { readonly projectId: string; readonly name: string },
  signal: AbortSignal,
): AsyncGenerator<Run> {
  const startedAt = Date.now();
  const shown = new Set<string>();
  while (!signal.aborted) {
    const found = await store.apps.find(app);
    const runs = found ? await store.runs.list({ appNumber: found.number, limit: PAGE }) : [];
    for (const run of runs.toReversed()) {
      if (run.createdAt < startedAt || !isFinal(run.state) || shown.has(run.id)) continue;
      shown.add(run.id);
      yield run;
    }
    for (const id of shown) {
      if (shown.size <= REMEMBERED) break;
      shown.delete(id);
    }
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {});
  }
}
