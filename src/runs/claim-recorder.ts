import { Batcher } from "../kit/batcher.ts";
import type { Clock } from "../kit/clock.ts";
import { Counts } from "../kit/concurrency.ts";
import { retry } from "../kit/retry.ts";
import type { Log } from "../kit/log.ts";
import { RunTally } from "../model/run-tally.ts";
import type { FinishedClaim } from "../store/runs/final-runs.ts";
import type { ReleasedClaim } from "../store/runs/claims.ts";
import type { Store } from "../store/store.ts";
import { deliveryOf, payloadOf } from "./ended-run.ts";
import type { LargePayloads } from "./large-payloads.ts";
import type { Claim, LiveRun, RunEnd, RunRecorder } from "./live-run.ts";

export type ClaimRecorderParts = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** Null where every payload lies in the database. */
  readonly large?: LargePayloads | null;
  /** Deliveries have been stored. */
  readonly onDeliveries: () => void;
  /** A run of that app waits in the store again. */
  readonly onReleased: (appNumber: number) => void;
};

const BATCH = 256;
/** What one statement stores; apps take turns, so that large results of one do not hold up the ends of another's runs. */
const ENDS = {
  maxItems: BATCH,
  maxWeight: 2 * 1024 * 1024,
  weightOf: ({ result, delivery }: FinishedClaim) =>
    (result?.bytes?.length ?? 0) + (delivery?.body?.length ?? 0),
  keyOf: ({ run }: FinishedClaim) => run.appNumber,
};
const RETRY_MS = 1_000;
/** An end that could not be stored for so long is made anew: its blobs, which no row names yet, are put again. */
const REMAKE_MS = 20 * 60 * 1000;
/** What ends may hold that are not stored yet; beyond it, apps that have such ends begin no more runs. */
export const MAX_UNSTORED_BYTES = 64 * 1024 * 1024;

/**
 * Records the ends of runs that are in the store before they end: their final state, their result and their delivery are one
 * write, refused if somebody else has claimed the run meanwhile. A run whose replica or service ended under it
 * goes back to the queue instead.
 */
export class ClaimRecorder implements RunRecorder {
  /** Runs whose end is stored. */
  readonly ended = new RunTally();
  readonly #parts: ClaimRecorderParts;
  readonly #finished: Batcher<FinishedClaim, Set<string>>;
  readonly #released: Batcher<ReleasedClaim, void>;
  readonly #recording = new Set<Promise<void>>();
  /** The ends of each app that are not stored yet. */
  readonly #unstored = new Counts<number>();
  /** What all of them hold. */
  #unstoredBytes = 0;
  #isStopping = false;

  constructor(parts: ClaimRecorderParts) {
    const { store } = parts;
    this.#parts = parts;
    this.#finished = new Batcher(async (batch) => new Set(await store.claims.finish(batch)), ENDS);
    this.#released = new Batcher(async (batch) => await store.claims.release(batch), {
      maxItems: BATCH,
    });
  }

  record(run: LiveRun, end: RunEnd): void {
    const { claim } = run;
    if (!claim) throw new Error(`the run ${run.request.id} is recorded by its claim and has none`);
    const bytes = end.response.body.length;
    this.#unstoredBytes += bytes;
    const recorded = this.#unstored
      .during(run.request.target.appNumber, () => this.#record(run, end, claim))
      .catch((error: unknown) =>
        this.#parts.log.error({ err: error, runId: run.request.id }, "could not end a run"),
      )
      .finally(() => {
        this.#unstoredBytes -= bytes;
        this.#recording.delete(recorded);
        run.settle();
      });
    this.#recording.add(recorded);
  }

  /**
   * Whether runs of the app may begin that are stored at their end. Results wait in memory while the store does not take
   * them, or takes them more slowly than they come.
   */
  hasRoom(appNumber: number): boolean {
    return this.#unstoredBytes < MAX_UNSTORED_BYTES || !this.#unstored.has(appNumber);
  }

  /** Resolves when the end of every run that has ended is written down. */
  async settle(): Promise<void> {
    await Promise.all(this.#recording);
  }

  /** Resolves when every end is written down; storage that does not answer is not waited for any more. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.settle();
  }

  async #record(run: LiveRun, end: RunEnd, claim: Claim): Promise<void> {
    const { log, clock, onReleased } = this.#parts;
    const { id, target } = run.request;
    const { owner, fence } = claim;
    const again = run.isAsync ? nextTry(run, end, claim) : null;
    if (again) {
      log.warn({ runId: id, ...again }, "returning the run to the queue");
      await this.#retry(() =>
        this.#released.add({ appNumber: target.appNumber, id, owner, fence, ...again }),
      );
      onReleased(target.appNumber);
      return;
    }
    // Before the end is seen: a key that is free never answers with a refusal that was another call's.
    await this.#forgetKey(run, claim);
    let made: FinishedClaim | null = null;
    let madeAt = 0;
    const passed = await this.#retry(async () => {
      // A stream is read back for its webhook, and what is large becomes a blob: that may fail for a while too.
      if (!made || clock.monotonic() - madeAt > REMAKE_MS) {
        madeAt = clock.monotonic();
        made = await this.#finishedClaim(run, end, claim);
      }
      return { ids: await this.#finished.add(made), finished: made };
    });
    if (!passed) return;
    const { ids, finished } = passed;
    if (!ids.has(id)) {
      log.warn({ runId: id, fence }, "ignored a late outcome: the run was claimed again");
      return;
    }
    this.ended.add(target.appNumber, finished.run.state);
    if (finished.delivery) this.#parts.onDeliveries();
  }

  /** A key whose run never began is free again: the caller may try with it once more. */
  async #forgetKey({ call, request }: LiveRun, { keyHash }: Claim): Promise<void> {
    if (keyHash === null || call.handedAt > 0) return;
    const { id: runId, target } = request;
    const { store } = this.#parts;
    await this.#retry(() => store.keys.forget({ appNumber: target.appNumber, keyHash, runId }));
  }

  async #finishedClaim(run: LiveRun, end: RunEnd, { owner, fence }: Claim): Promise<FinishedClaim> {
    if (run.isStream) await run.transcript().settle();
    const { clock, large } = this.#parts;
    const payload = payloadOf(run, end);
    const { result: bytes = null, contentType = null } = payload ?? {};
    const blob = large?.isLarge(bytes) ? await large.put(bytes) : undefined;
    const result = payload && { bytes: blob ? null : bytes, blob, contentType };
    const whole = run.request.webhook ? await deliveryOf(run, end, clock.now()) : null;
    const body = whole?.body ?? null;
    const delivery =
      whole && large?.isLarge(body)
        ? await large.withBody(whole, body, body === bytes ? blob : undefined)
        : whole;
    // That of an async run is stored already.
    const input = run.isAsync ? null : (payload?.input ?? null);
    return { run: run.record(), fence, owner, result, input, part: payload && run.lastPart, delivery };
  }

  /** What has happened must not be lost because the storage is away for a while. */
  async #retry<Result>(write: () => Promise<Result>): Promise<Result | null> {
    const { clock, log } = this.#parts;
    return await retry(write, {
      clock,
      delayMs: () => RETRY_MS,
      shouldRetry: (error) => {
        log.error({ err: error }, "could not store the outcome of a run; retrying");
        return !this.#isStopping;
      },
    });
  }
}

/** How a run that did not get to its own end goes back to the queue; null for one that has ended. */
function nextTry(
  run: LiveRun,
  { outcome }: RunEnd,
  { attempt }: Claim,
): { readonly attempt: number; readonly isInterruption: boolean } | null {
  const hasBegun = run.call.handedAt > 0;
  if (outcome.kind === "refused" && outcome.code === "draining") return { attempt, isInterruption: hasBegun };
  const { maxAttempts } = run.request.target.config.scaling;
  if (outcome.kind === "died" && attempt < maxAttempts)
    return { attempt: attempt + 1, isInterruption: false };
  return null;
}
