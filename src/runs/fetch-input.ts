import type { Clock } from "../kit/clock.ts";
import { insist } from "../kit/insist.ts";
import type { Log } from "../kit/log.ts";
import type { Outcome } from "../model/outcome.ts";
import type { PayloadBlob } from "../model/payload.ts";
import type { ClaimedRun } from "../store/claims.ts";
import type { LargePayloads } from "./large-payloads.ts";

type FetchParts = {
  readonly large: LargePayloads | null;
  readonly clock: Clock;
  readonly log: Log;
};

/** A run that may be executed, or how it ends without. */
type Fetched = { readonly claimed: ClaimedRun; readonly end: Outcome | null };

const RETRY_MS = 1_000;
const LOST: Outcome = {
  kind: "lost",
  message: "The run's arguments are no longer in the blob store, or damaged there: send them again.",
};

/**
 * A claimed run with its arguments, which lie in a blob. While the blob store is away they are waited for, as the database
 * would be; when the signal says that the service stops, the run goes back into the queue.
 */
export async function fetchInput(
  claimed: ClaimedRun,
  blob: PayloadBlob,
  { large, clock, log }: FetchParts,
  signal: AbortSignal,
): Promise<Fetched> {
  const { id: runId } = claimed.run;
  const read = await insist(async () => ({ input: (await large?.read(blob)) ?? null }), {
    clock,
    gapMs: () => RETRY_MS,
    goesOn: (error) => {
      log.error({ err: error, runId }, "could not read the arguments of a run; retrying");
      return !signal.aborted;
    },
    signal,
  });
  if (!read) return { claimed, end: { kind: "refused", code: "draining" } };
  const { input } = read;
  if (!input) return { claimed, end: LOST };
  return { claimed: { ...claimed, payload: { ...claimed.payload, input } }, end: null };
}
