import type { Log } from "../kit/log.ts";
import type { Outcome } from "../model/outcome.ts";
import type { PayloadBlob } from "../model/payload.ts";
import type { ClaimedRun } from "../store/runs/claims.ts";
import type { LargePayloads } from "./large-payloads.ts";

type FetchParts = { readonly large: LargePayloads | null; readonly log: Log };

/** A run that may be executed, or how it ends without. */
type Fetched = { readonly claimed: ClaimedRun; readonly end: Outcome | null };

/** It goes back into the queue. */
export const BACK: Outcome = { kind: "refused", code: "draining" };
const LOST: Outcome = {
  kind: "lost",
  message: "The run's arguments are no longer in the blob store, or damaged there: send them again.",
};

/**
 * Claimed runs in their order, with arguments that lie in blobs. If some cannot be read now, their run and all after it go
 * back: nobody waits with runs in his hands, which could not be cancelled, nor go to a node that reaches the blob store.
 */
export async function* withInputs(
  runs: readonly ClaimedRun[],
  parts: FetchParts,
): AsyncGenerator<Fetched, void, void> {
  let isAway = false;
  for (const claimed of runs) {
    const { inputBlob: blob } = claimed.payload;
    const fetched: Fetched | null =
      blob && !isAway ? await fetchInput(claimed, blob, parts) : { claimed, end: null };
    isAway ||= fetched === null;
    yield isAway || !fetched ? { claimed, end: BACK } : fetched;
  }
}

/** Null while the blob store is away. */
async function fetchInput(
  claimed: ClaimedRun,
  blob: PayloadBlob,
  { large, log }: FetchParts,
): Promise<Fetched | null> {
  try {
    const input = (await large?.read(blob)) ?? null;
    if (!input) return { claimed, end: LOST };
    return { claimed: { ...claimed, payload: { ...claimed.payload, input } }, end: null };
  } catch (error) {
    log.error({ err: error, runId: claimed.run.id }, "could not read the arguments of a run; retrying");
    return null;
  }
}
