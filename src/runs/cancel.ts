import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../kit/clock.ts";
import { AppError, errorBody } from "../model/errors.ts";
import { isFinal } from "../model/run.ts";
import { RunTally } from "../model/run-tally.ts";
import type { Store } from "../store/store.ts";
import type { RunTarget } from "./live-run.ts";
import type { KnownRun, RunLookup } from "./lookup.ts";
import type { RunKey } from "./part-writer.ts";

/** A run between the store and a replica is at one of the two very soon. */
const TRIES = 20;
const TRY_MS = 50;

/** Stops runs from outside, wherever they are. */
export class Canceller {
  /** Runs that were cancelled in the queue. */
  readonly ended = new RunTally();
  readonly #lookup: RunLookup;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #onDeliveries: () => void;
  readonly #target: (appNumber: number) => RunTarget | null;

  constructor(
    lookup: RunLookup,
    store: Store,
    clock: Clock,
    onDeliveries: () => void,
    target: (appNumber: number) => RunTarget | null,
  ) {
    this.#lookup = lookup;
    this.#store = store;
    this.#clock = clock;
    this.#onDeliveries = onDeliveries;
    this.#target = target;
  }

  /** Throws for a run that is not there, or has ended. */
  async cancel(key: RunKey): Promise<void> {
    for (let i = 0; i < TRIES; i++) {
      const known = await this.#lookup.find(key);
      if (!known) throw new AppError("run_not_found");
      if (isFinal(known.run.state) || known.live?.end) throw new AppError("run_finished");
      if (known.live) {
        known.live.cancel();
        return;
      }
      if (known.run.state === "queued" && (await this.#endQueued(known))) return;
      await sleep(TRY_MS);
    }
    throw new AppError("not_available", { message: "The run is under way in another service." });
  }

  async #endQueued({ run, payload }: KnownRun): Promise<boolean> {
    const { id, appNumber, createdAt, webhookEndpoint: url } = run;
    const error = new AppError("cancelled");
    const now = this.#clock.now();
    const body = Buffer.from(errorBody(error, id));
    const contentType = "application/json";
    const isKept = this.#target(appNumber)?.config.deployment.recordPayloads !== "none";
    const hasEnded = await this.#store.claims.endQueued({
      appNumber,
      id,
      run: {
        ...run,
        state: "cancelled",
        completedAt: now,
        updatedAt: now,
        errorCode: error.code,
        errorMessage: error.message,
        responseMs: Math.max(0, now - createdAt),
      },
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
    if (hasEnded) this.ended.add(appNumber, "cancelled");
    if (hasEnded && url !== null) this.#onDeliveries();
    return hasEnded;
  }
}
