import { type BulkJob, statesOf } from "../../model/bulk-job.ts";
import type { RunState } from "../../model/run.ts";
import type { RunFilter } from "../../store/runs/run-pages.ts";
import type { Store } from "../../store/store.ts";

/** Up to here the runs that a filter finds are counted. */
const MOST_COUNTED = 1_000;
/** Pages that are read for that; a page may have few runs or none. */
const MOST_PAGES = 10;

type Wanted = Pick<BulkJob, "action" | "filter">;

/** The filter as lists of runs take it. */
export function filterOf({ filter }: Wanted, state: RunState | null): Omit<RunFilter, "limit"> {
  const { mode, functionName, tag, fromMs, toMs } = filter;
  return {
    asyncOnly: mode === "async",
    syncOnly: mode === "sync",
    ...(state && { state }),
    ...(functionName !== undefined && { functionName }),
    ...(tag !== undefined && { tag }),
    ...(fromMs !== undefined && { fromMs }),
    ...(toMs !== undefined && { toMs }),
  };
}

/** How many runs the action finds; `isExact`: no more than these. */
export async function countMatching(
  store: Pick<Store, "runs">,
  appNumber: number,
  wanted: Wanted,
): Promise<{ readonly count: number; readonly isExact: boolean }> {
  let count = 0;
  let pages = 0;
  for (const state of statesOf(wanted)) {
    let before: string | null | undefined;
    do {
      const page = await store.runs.pageOfApp({
        ...filterOf(wanted, state),
        appNumber,
        limit: MOST_COUNTED,
        ...(before && { before }),
      });
      count += page.runs.length;
      pages += 1;
      before = page.next;
      if (before !== null && (count >= MOST_COUNTED || pages >= MOST_PAGES)) return { count, isExact: false };
    } while (before !== null);
  }
  return { count, isExact: true };
}
