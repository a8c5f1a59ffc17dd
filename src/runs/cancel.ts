import { type Clock, pause } from "../kit/clock.ts";
import { AppError } from "../model/errors.ts";
import { endRun, isFinal, type Run, type RunKey, RunTally } from "../model/run.ts";
import type { RunTarget } from "../replicas/pool.ts";
import type { Store } from "../store/store.ts";
import { deliveryOf } from "./ended-run.ts";
import type { KnownRun, RunLookup } from "./lookup.ts";
import { respondError } from "./response.ts";

/** A run that is neither queued nor known here is on its way from the store to a replica. */
const TRIES = 20;
const TRY_MS = 50;

/** Queued runs of a deleted app that are ended together. */
const PAGE = 100;
const ORPHAN = new AppError("app_not_found", { message: "The app was deleted before the run began." });

type CancellerParts = {
  readonly lookup: RunLookup;
  readonly store: Store;
  readonly clock: Clock;
  readonly onDeliveries: () => void;
  readonly target: (appNumber: number) => RunTarget | null;
  /** Ends a file run that is in progress here; false if there is none. */
  readonly cancelFile: (runId: string) => boolean;
};

/** Cancels runs at the request of callers, and ends the queued runs of deleted apps. */
export class Canceller {
  /** Runs that ended in the queue. */
  readonly ended = new RunTally();
  readonly #parts: CancellerParts;

  constructor(parts: CancellerParts) {
    this.#parts = parts;
  }

  /** Throws for a run that does not exist, that the caller may not see, or that has ended. */
  async cancel(key: RunKey, maySee: (run: Run) => boolean): Promise<void> {
    const { lookup, cancelFile, clock } = this.#parts;
    for (let i = 0; i < TRIES; i++) {
      const known = await lookup.find(key, null, maySee);
      if (!known) throw new AppError("run_not_found");
      if (isFinal(known.run.state) || known.live?.end) throw new AppError("run_finished");
      if (known.live) {
        known.live.cancel();
        return;
      }
      if (cancelFile(key.id)) return;
      const cancelled = new AppError("cancelled");
      if (known.run.state === "queued" && (await this.#endQueued(known, cancelled, "cancelled"))) return;
      await pause(clock, TRY_MS);
    }
    throw new AppError("not_available", { message: "The run is in progress in another service." });
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
      // In parallel, so that the store commits them together.
      await Promise.all(runs.map((run) => this.#endOrphan(run)));
      runs = await stored.list({ ...queued, before: last.id });
    }
  }

  async #endOrphan(key: RunKey): Promise<void> {
    const known = await this.#parts.lookup.find(key, null);
    if (known?.run.state === "queued") await this.#endQueued(known, ORPHAN, "failure");
  }

  async #endQueued(
    { run, payload }: KnownRun,
    error: AppError,
    state: "cancelled" | "failure",
  ): Promise<boolean> {
    const { store, clock, target, onDeliveries } = this.#parts;
    const { id, appNumber, webhookEndpoint: url } = run;
    const now = clock.now();
    const response = respondError(id, error);
    const { body: bytes, contentType, status } = response;
    const statusCode = state === "cancelled" ? null : status;
    const webhook = url === null ? null : { endpoint: url, sealedSecret: payload?.sealedSecret ?? null };
    const isKept = target(appNumber)?.config.deployment.recordPayloads !== "none";
    const hasEnded = await store.claims.endQueued({
      appNumber,
      id,
      run: endRun(run, { state, statusCode, errorCode: error.code, errorMessage: error.message }, now),
      result: isKept ? { bytes, contentType } : null,
      delivery: webhook && deliveryOf(run, webhook, response, now),
    });
    if (hasEnded) this.ended.add(appNumber, state);
    if (hasEnded && url !== null) onDeliveries();
    return hasEnded;
  }
}
