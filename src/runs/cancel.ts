import { Batcher } from "../kit/batcher.ts";
import { type Clock, pause } from "../kit/clock.ts";
import { AppError } from "../model/errors.ts";
import { endRun, isFinal, type Run, type RunKey } from "../model/run.ts";
import { hasRun, lateness } from "../model/terms.ts";
import type { RunTarget } from "../replicas/pool.ts";
import type { QueuedEnd } from "../store/runs/final-runs.ts";
import type { Store } from "../store/store.ts";
import { isRequeued } from "./claim-recorder.ts";
import { deliveryOf } from "./ended-run.ts";
import type { KnownRun, RunLookup } from "./lookup.ts";
import { lateError, respondError } from "./response.ts";
import type { RunTally } from "./run-tally.ts";

/** A run that is neither queued nor known here is on its way from the store to a replica. */
const TRIES = 20;
const TRY_MS = 50;

const ELSEWHERE = "The run is in progress in another service.";
const ENDING = "An attempt of the run has just ended and is not stored yet.";

/** Queued runs that one statement ends; apps take turns. */
const ENDS = { maxItems: 256, keyOf: ({ run }: QueuedEnd) => run.appNumber };
/** Queued runs of a deleted app that are read together. */
const PAGE = ENDS.maxItems;
const ORPHAN = new AppError("app_not_found", { message: "The app was deleted before the run began." });

type CancellerParts = {
  readonly lookup: RunLookup;
  readonly store: Store;
  readonly clock: Clock;
  readonly onDeliveries: () => void;
  /** A queued run has ended: others of its concurrency key may begin. */
  readonly onDropped: (run: Run) => void;
  readonly target: (appNumber: number) => RunTarget | null;
  /** Ends a file run that is in progress here; false if there is none. */
  readonly cancelFile: (runId: string) => boolean;
  /** Counts runs that ended in the queue. */
  readonly tally: RunTally;
};

/** Cancels runs at the request of callers, and ends the queued runs of deleted apps. */
export class Canceller {
  readonly #parts: CancellerParts;
  /** Resolves to those that were still queued. */
  readonly #ends: Batcher<QueuedEnd, Set<QueuedEnd>>;

  constructor(parts: CancellerParts) {
    this.#parts = parts;
    this.#ends = new Batcher(async (ends) => {
      const ended = await parts.store.claims.endQueued(ends);
      return new Set(ended.map((index) => ends[index]!));
    }, ENDS);
  }

  /** Throws for a run that does not exist, that the caller may not see, or that has ended. */
  async cancel(key: RunKey, maySee: (run: Run) => boolean): Promise<void> {
    const { lookup, cancelFile, clock } = this.#parts;
    let message = ELSEWHERE;
    for (let i = 0; i < TRIES; i++) {
      const known = await lookup.find(key, null, maySee);
      if (!known) throw new AppError("run_not_found");
      const { live, run } = known;
      if (isFinal(run.state) || (live?.end && !isRequeued(live))) throw new AppError("run_finished");
      if (live && !live.end) return live.cancel();
      // It will be in the queue once its failed attempt is stored.
      message = live ? ENDING : ELSEWHERE;
      if (cancelFile(key.id)) return;
      const cancelled = new AppError("cancelled");
      if (run.state === "queued" && (await this.#endQueued(known, cancelled, "cancelled"))) return;
      await pause(clock, TRY_MS);
    }
    throw new AppError("not_available", { message });
  }

  /** Ends a queued run that is late by its terms. False if it is in progress: it may come back into the queue. */
  async endLate(key: RunKey, now: number): Promise<boolean> {
    const known = await this.#parts.lookup.find(key, null);
    if (!known || isFinal(known.run.state)) return true;
    if (known.run.state !== "queued" || known.live) return false;
    const code = lateness(known.run.terms, hasRun(known.run), now);
    return code === null || (await this.#endQueued(known, lateError(code), "failure"));
  }

  /** Ends the queued runs of deleted apps and notifies their webhooks. */
  async endOrphans(appNumbers: readonly number[]): Promise<void> {
    const { appOwners } = this.#parts.store;
    const living = new Set((await appOwners.list(appNumbers)).map(({ appNumber }) => appNumber));
    for (const appNumber of appNumbers) if (!living.has(appNumber)) await this.#endAll(appNumber);
  }

  async #endAll(appNumber: number): Promise<void> {
    const { runs: stored } = this.#parts.store;
    const queued = { appNumber, state: "queued", limit: PAGE } as const;
    let runs = await stored.list(queued);
    for (let last = runs.at(-1); last; last = runs.at(-1)) {
      await Promise.all(runs.map((run) => this.#endOrphan(run)));
      runs = await stored.list({ ...queued, before: last.id });
    }
  }

  async #endOrphan(run: Run): Promise<void> {
    const { payloads } = this.#parts.store;
    const payload = run.webhookEndpoint === null ? null : await payloads.find(run);
    await this.#endQueued({ run, payload }, ORPHAN, "failure");
  }

  /** False if it is queued no more. */
  async #endQueued(
    { run, payload }: Pick<KnownRun, "run" | "payload">,
    error: AppError,
    state: "cancelled" | "failure",
  ): Promise<boolean> {
    const { clock, target, onDeliveries, onDropped, tally } = this.#parts;
    const { id, appNumber, webhookEndpoint: url } = run;
    const now = clock.now();
    const response = respondError(id, error);
    const { body: bytes, contentType, status } = response;
    const statusCode = state === "cancelled" ? null : status;
    const webhook = url === null ? null : { endpoint: url, sealedSecret: payload?.sealedSecret ?? null };
    const isKept = target(appNumber)?.config.deployment.recordPayloads !== "none";
    const fate = { state, statusCode, errorCode: error.code, errorMessage: error.message };
    const end = {
      run: endRun(run, fate, now),
      result: isKept ? { bytes, contentType } : null,
      delivery: webhook && deliveryOf(run, webhook, response, now),
    };
    if (!(await this.#ends.add(end)).has(end)) return false;
    tally.add(end.run, null);
    if (run.terms?.concurrencyKey) onDropped(run);
    if (url !== null) onDeliveries();
    return true;
  }
}
