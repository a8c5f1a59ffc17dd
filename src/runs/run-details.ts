import type { Run, RunDetails } from "../model/run.ts";
import type { Store } from "../store/store.ts";
import type { LiveRun } from "./live-run.ts";
import type { QueueOutlook } from "./queue/outlook.ts";

const NONE: RunDetails = { failed: [], progress: null, checkpoint: null, schedule: null, place: null };

type DetailsParts = {
  readonly store: Pick<Store, "claims" | "checkpoints" | "schedules">;
  readonly outlook: Pick<QueueOutlook, "of">;
};

/** What is known of a run beside its record. */
export async function readDetails(
  { store, outlook }: DetailsParts,
  run: Run,
  live: LiveRun | null = null,
): Promise<RunDetails> {
  if (!run.isAsync) return { ...NONE, place: await outlook.of(run, live) };
  const [failed, advance, schedule, place] = await Promise.all([
    run.attempt > 1 ? store.claims.attempts(run) : [],
    store.checkpoints.find(run),
    store.schedules.ofRun(run),
    outlook.of(run, live),
  ]);
  return { failed, ...advance, schedule, place };
}
