import type { Clock } from "../kit/clock.ts";
import type { NewDelivery } from "../model/delivery.ts";
import type { Journal } from "./journal.ts";
import { deliveryOf, payloadOf } from "./ended-run.ts";
import type { LiveRun, RunEnd, RunKeeper } from "./live-run.ts";

/** Keeps runs of which nothing was written before they ended: all of it goes to the journal. */
export class LightKeeper implements RunKeeper {
  readonly #journal: Journal;
  readonly #clock: Clock;
  /** What ended in this turn of the event loop: all its callers are answered before the first record is made. */
  #ended: { readonly run: LiveRun; readonly end: RunEnd }[] = [];
  /** Runs whose chunks are still on their way to the store, or are read back for a webhook. */
  readonly #waiting = new Set<Promise<void>>();

  constructor(journal: Journal, clock: Clock) {
    this.#journal = journal;
    this.#clock = clock;
  }

  keep(run: LiveRun, end: RunEnd): void {
    if (this.#ended.push({ run, end }) === 1) setImmediate(() => this.#keepEnded());
  }

  /** Resolves when everything kept so far has reached the journal. */
  async settle(): Promise<void> {
    this.#keepEnded();
    await Promise.all(this.#waiting);
  }

  #keepEnded(): void {
    const ended = this.#ended;
    this.#ended = [];
    for (const { run, end } of ended) this.#keep(run, end);
  }

  #keep(run: LiveRun, end: RunEnd): void {
    // Found in the store, a run has to be there with all its chunks.
    const isStored = !run.isStream || run.transcript().isSettled;
    if (isStored && !run.request.webhook) {
      this.#add(run, end, null);
      return;
    }
    const kept = this.#keepLater(run, end).finally(() => this.#waiting.delete(kept));
    this.#waiting.add(kept);
  }

  async #keepLater(run: LiveRun, end: RunEnd): Promise<void> {
    if (run.isStream) await run.transcript().settle();
    this.#add(run, end, run.request.webhook ? await deliveryOf(run, end, this.#clock.now()) : null);
  }

  #add(run: LiveRun, end: RunEnd, delivery: NewDelivery | null): void {
    const { lastPart: part } = run;
    const transcript = run.isStream ? run.transcript() : null;
    this.#journal.add({ run: run.record(), payload: payloadOf(run, end), part, delivery, transcript });
    run.settle();
  }
}
