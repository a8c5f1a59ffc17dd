import type { Clock } from "../kit/clock.ts";
import { pause } from "../kit/clock.ts";
import { AppError, errorBody } from "../model/errors.ts";
import { endRun, isFinal } from "../model/run.ts";
import { RunTally } from "../model/run-tally.ts";
import type { RunTarget } from "../replicas/pool.ts";
import type { Run, RunKey } from "../model/run.ts";
import type { Store } from "../store/store.ts";
import type { KnownRun, RunLookup } from "./lookup.ts";

/** A run between the store and a replica is at one of the two very soon. */
const TRIES = 20;
const TRY_MS = 50;

/** So many queued runs of a deleted app are looked at together. */
const PAGE = 100;
const ORPHAN = new AppError("app_not_found", { message: "The app was deleted before the run began." });

export type CancellerParts = {
  readonly lookup: RunLookup;
  readonly store: Store;
  readonly clock: Clock;
  readonly onDeliveries: () => void;
  readonly target: (appNumber: number) => RunTarget | null;
  /** Ends the file run that is under way here; false when there is none. */
  readonly cancelFile: (runId: string) => boolean;
};

/** Ends runs from outside, wherever they are. */
export class Canceller {
  /** Runs that ended in the queue. */
  readonly ended = new RunTally();
  readonly #lookup: RunLookup;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #onDeliveries: () => void;
  readonly #target: (appNumber: number) => RunTarget | null;
  readonly #cancelFile: (runId: string) => boolean;

  constructor({ lookup, store, clock, onDeliveries, target, cancelFile }: CancellerParts) {
    this.#lookup = lookup;
    this.#store = store;
    this.#clock = clock;
    this.#onDeliveries = onDeliveries;
    this.#target = target;
    this.#cancelFile = cancelFile;
  }

  /** Throws for a run that is not there, that the caller may not know of, or that has ended. */
  async cancel(key: RunKey, maySee: (run: Run) => boolean): Promise<void> {
    for (let i = 0; i < TRIES; i++) {
      const known = await this.#lookup.find(key, null, maySee);
      if (!known) throw new AppError("run_not_found");
      if (isFinal(known.run.state) || known.live?.end) throw new AppError("run_finished");
      if (known.live) {
        known.live.cancel();
        return;
      }
      if (this.#cancelFile(key.id)) return;
      const cancelled = new AppError("cancelled");
      if (known.run.state === "queued" && (await this.#endQueued(known, cancelled, "cancelled"))) return;
      await pause(this.#clock, TRY_MS);
    }
    throw new AppError("not_available", { message: "The run is in progress in another service." });
  }

  /** Ends the queued runs of those of the apps that were deleted; their webhooks are told. */
  async endOrphans(appNumbers: readonly number[]): Promise<void> {
    const living = new Set((await this.#store.appOwners.list(appNumbers)).map(({ appNumber }) => appNumber));
    for (const appNumber of appNumbers) if (!living.has(appNumber)) await this.#endAll(appNumber);
  }

  async #endAll(appNumber: number): Promise<void> {
    const queued = { appNumber, state: "queued", limit: PAGE } as const;
    let runs = await this.#store.runs.list(queued);
    for (let last = runs.at(-1); last; last = runs.at(-1)) {
      // At once, so that the store commits them together.
      await Promise.all(runs.map((run) => this.#endOrphan(run)));
      runs = await this.#store.runs.list({ ...queued, before: last.id });
    }
  }

  async #endOrphan(key: RunKey): Promise<void> {
    const known = await this.#lookup.find(key, null);
    if (known?.run.state === "queued") await this.#endQueued(known, ORPHAN, "failure");
  }

  async #endQueued(
    { run, payload }: KnownRun,
    error: AppError,
    state: "cancelled" | "failure",
  ): Promise<boolean> {
    const { id, appNumber, webhookEndpoint: url } = run;
    const now = this.#clock.now();
    const body = Buffer.from(errorBody(error, id));
    const contentType = "application/json";
    const isKept = this.#target(appNumber)?.config.deployment.recordPayloads !== "none";
    const hasEnded = await this.#store.claims.endQueued({
      appNumber,
      id,
      run: endRun(
        run,
        {
          state,
          statusCode: state === "cancelled" ? null : error.status,
          errorCode: error.code,
          errorMessage: error.message,
        },
        now,
      ),
      result: isKept ? { bytes: body, contentType } : null,
      delivery:
        url === null
          ? null
          : {
              id,
              appNumber,
              url,
              contentType,
              runStatus: error.status,
              body,
              sealedSecret: payload?.sealedSecret ?? null,
              nextAt: now,
              createdAt: now,
            },
    });
    if (hasEnded) this.ended.add(appNumber, state);
    if (hasEnded && url !== null) this.#onDeliveries();
    return hasEnded;
  }
}
