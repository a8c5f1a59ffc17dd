import { Batcher } from "../kit/batcher.ts";
import type { Clock } from "../kit/clock.ts";
import { Counts } from "../kit/concurrency.ts";
import { retry } from "../kit/retry.ts";
import type { Log } from "../kit/log.ts";
import { retryDelayMs } from "../model/retry.ts";
import type { RunAttempt } from "../model/run.ts";
import { lateness } from "../model/terms.ts";
import type { FinishedClaim } from "../store/runs/final-runs.ts";
import type { ReleasedClaim } from "../store/runs/claims.ts";
import type { Store } from "../store/store.ts";
import { deliveryOf, payloadOf, wholeResponse } from "./ended-run.ts";
import type { LargePayloads } from "./large-payloads.ts";
import type { Claim, LiveRun, RunEnd, RunRecorder } from "./live-run.ts";
import type { RunTally } from "./run-tally.ts";

export type ClaimRecorderParts = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** Null if all payloads are in the database. */
  readonly large?: LargePayloads | null;
  readonly onDeliveries: () => void;
  /** A run of that app was requeued; `dueAt` is when it may begin, in epoch milliseconds, if not now. */
  readonly onReleased: (appNumber: number, dueAt: number | null) => void;
  /** Counts runs whose end is stored. */
  readonly tally: RunTally;
};

const BATCH = 256;
/** The limits of a statement; apps take turns, so that large results of one do not delay the others. */
const ENDS = {
  maxItems: BATCH,
  maxWeight: 2 * 1024 * 1024,
  weightOf: ({ result, delivery }: FinishedClaim) =>
    (result?.bytes?.length ?? 0) + (delivery?.body?.length ?? 0),
  keyOf: ({ run }: FinishedClaim) => run.appNumber,
};
const RETRY_MS = 1_000;
/** An end that could not be stored for this long is prepared again, because blobs without a row are removed. */
const REMAKE_MS = 20 * 60 * 1000;
/** Memory for ends that are not stored yet; beyond it, apps with such ends start no more runs. */
export const MAX_UNSTORED_BYTES = 64 * 1024 * 1024;

/**
 * Records the ends of claimed runs. Final state, result and delivery are one write, which is refused if another service
 * has claimed the run since. A run whose replica or service died is requeued instead.
 */
export class ClaimRecorder implements RunRecorder {
  readonly #parts: ClaimRecorderParts;
  readonly #finished: Batcher<FinishedClaim, Set<string>>;
  readonly #released: Batcher<ReleasedClaim, void>;
  readonly #recording = new Set<Promise<void>>();
  /** Ends per app that are not stored yet. */
  readonly #unstored = new Counts<number>();
  #unstoredBytes = 0;
  #isStopping = false;

  constructor(parts: ClaimRecorderParts) {
    const { store } = parts;
    this.#parts = parts;
    this.#finished = new Batcher(async (batch) => new Set(await store.claims.finish(batch)), ENDS);
    this.#released = new Batcher((batch) => store.claims.release(batch), { maxItems: BATCH });
  }

  record(run: LiveRun, end: RunEnd): void {
    const { claim } = run;
    if (!claim) throw new Error(`the run ${run.request.id} is recorded by its claim and has none`);
    const bytes = end.response.body.length;
    this.#unstoredBytes += bytes;
    const { id: runId, target } = run.request;
    const recorded = this.#unstored
      .during(target.appNumber, () => this.#record(run, end, claim))
      .catch((error: unknown) => this.#parts.log.error({ err: error, runId }, "could not end a run"))
      .finally(() => {
        this.#unstoredBytes -= bytes;
        this.#recording.delete(recorded);
        run.settle();
      });
    this.#recording.add(recorded);
  }

  /** Whether runs of the app may start. Results wait in memory while the store is away or slower than the runs. */
  hasRoom(appNumber: number): boolean {
    return this.#unstoredBytes < MAX_UNSTORED_BYTES || !this.#unstored.has(appNumber);
  }

  /** Resolves when the ends of all ended runs are stored. */
  async settle(): Promise<void> {
    await Promise.all(this.#recording);
  }

  /** The same, without waiting for storage that does not answer. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.settle();
  }

  async #record(run: LiveRun, end: RunEnd, claim: Claim): Promise<void> {
    const { log, clock, onReleased, tally } = this.#parts;
    const { id, target } = run.request;
    const { appNumber } = target;
    const { owner, fence } = claim;
    await run.settleNotes();
    const again = run.isAsync ? nextTry(run, end, claim, clock.now()) : null;
    if (again) {
      const { failed: _failed, accountId: _account, tags: _tags, ...told } = again;
      log.warn({ runId: id, ...told }, "returning the run to the queue");
      await this.#retry(() => this.#released.add({ appNumber, id, owner, fence, ...again }));
      onReleased(appNumber, again.dueAt ?? null);
      return;
    }
    // Before the end is visible: a freed key must never answer with the refusal of another call.
    await this.#forgetKey(run, claim);
    let made: FinishedClaim | null = null;
    let madeAt = 0;
    const stored = await this.#retry(async () => {
      // Reading a stream back for its webhook and storing blobs may fail for a while too.
      if (!made || clock.monotonic() - madeAt > REMAKE_MS) {
        madeAt = clock.monotonic();
        made = await this.#finishedClaim(run, end, claim);
      }
      return { ids: await this.#finished.add(made), finished: made };
    });
    if (!stored) return;
    const { ids, finished } = stored;
    if (!ids.has(id)) {
      log.warn({ runId: id, fence }, "ignored a late outcome: the run was claimed again");
      return;
    }
    tally.add(finished.run, end.timing);
    if (finished.delivery) this.#parts.onDeliveries();
  }

  /** Frees the key of a run that never started, so that the caller may use it again. */
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
    const { id, target, webhook, trace = null } = run.request;
    const key = { id, appNumber: target.appNumber, trace };
    let delivery = webhook && deliveryOf(key, webhook, await wholeResponse(run, end), clock.now());
    const body = delivery?.body ?? null;
    if (delivery && large?.isLarge(body)) {
      const bodyBlob = (body === bytes ? blob : undefined) ?? (await large.put(body));
      delivery = { ...delivery, body: null, bodyBlob };
    }
    // An async run's input is stored already.
    const input = run.isAsync ? null : (payload?.input ?? null);
    return { run: run.record(), fence, owner, result, input, part: payload && run.lastPart, delivery };
  }

  /** Retries until the storage takes the write, or the service stops. */
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

type NextTry = Pick<ReleasedClaim, "attempt" | "isInterruption" | "dueAt" | "failed" | "accountId" | "tags">;

/** Whether an ended run goes back into the queue instead. */
export function isRequeued(run: LiveRun): boolean {
  const { end, claim, isAsync } = run;
  return isAsync && end !== null && claim !== null && nextTry(run, end, claim, 0) !== null;
}

/** How a run that did not finish is requeued; null for a run that has ended. */
function nextTry(run: LiveRun, { outcome }: RunEnd, { attempt }: Claim, now: number): NextTry | null {
  const { call, request } = run;
  if (outcome.kind === "refused" && outcome.code === "draining")
    return { attempt, isInterruption: call.handedAt > 0 };
  const { terms = null, target } = request;
  const most = terms?.maxAttempts ?? undefined;
  const delayMs = retryDelayMs(target.config, attempt, outcome, Math.random(), most);
  // A run that would be late when it begins again ends with the error that it has now.
  if (delayMs === null || lateness(terms, true, now + delayMs)) return null;
  const { caller } = request;
  const payers = { accountId: caller && caller.accountId, tags: terms?.tags ?? [] };
  const again = { attempt: attempt + 1, isInterruption: false, failed: failedAttempt(run, now), ...payers };
  return delayMs > 0 ? { ...again, dueAt: now + delayMs } : again;
}

function failedAttempt(run: LiveRun, now: number): RunAttempt {
  const { attempt: number, startedAt, completedAt, replicaId, runMs, gpuMs, ...record } = run.record();
  const { statusCode, errorCode, errorMessage } = record;
  return {
    number,
    startedAt,
    endedAt: completedAt ?? now,
    replicaId,
    errorCode: errorCode ?? "app_error",
    // An answer of a server app is no error to its callers.
    errorMessage: errorMessage ?? `The app answered with status ${statusCode}.`,
    runMs,
    gpuMs,
  };
}
