import type { Run, RunDetails } from "../model/run.ts";
import type { TurnsQuery } from "../store/runs/turns.ts";
import type { Store } from "../store/store.ts";

const NONE: RunDetails = { failed: [], progress: null, checkpoint: null, schedule: null, position: null };

/** What is stored of a run beside its record. */
export async function readDetails(
  store: Store,
  run: Run,
  turn?: Pick<TurnsQuery, "turn" | "weights">,
): Promise<RunDetails> {
  if (!run.isAsync) return NONE;
  const isWaiting = run.state === "queued" && run.dueAt === null;
  const [failed, advance, schedule, position] = await Promise.all([
    run.attempt > 1 ? store.claims.attempts(run) : [],
    store.checkpoints.find(run),
    store.schedules.ofRun(run),
    isWaiting ? store.claims.position({ appNumber: run.appNumber, id: run.id, ...turn }) : null,
  ]);
  return { failed, ...advance, schedule, position };
}
