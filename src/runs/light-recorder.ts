import type { Journal } from "./journal.ts";
import { payloadOf } from "./ended-run.ts";
import type { LiveRun, RunEnd, RunRecorder } from "./live-run.ts";

/** Records runs of which nothing was written before they ended: all of it goes to the journal. */
export class LightRecorder implements RunRecorder {
  readonly #journal: Journal;
  /** What ended in this turn of the event loop: all its callers are answered before the first record is made. */
  #ended: { readonly run: LiveRun; readonly end: RunEnd }[] = [];
  /** Runs whose chunks are still on their way to the store. */
  readonly #waiting = new Set<Promise<void>>();

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  record(run: LiveRun, end: RunEnd): void {
    if (this.#ended.push({ run, end }) === 1) setImmediate(() => this.#recordEnded());
  }

  /** Resolves when everything recorded so far has reached the journal. */
  async settle(): Promise<void> {
    this.#recordEnded();
    await Promise.all(this.#waiting);
  }

  #recordEnded(): void {
    const ended = this.#ended;
    this.#ended = [];
    for (const { run, end } of ended) this.#record(run, end);
  }

  #record(run: LiveRun, end: RunEnd): void {
    // Found in the store, a run has to be there with all its chunks.
    if (!run.isStream || run.transcript().isSettled) {
      this.#add(run, end);
      return;
    }
    const recorded = this.#recordLater(run, end).finally(() => this.#waiting.delete(recorded));
    this.#waiting.add(recorded);
  }

  async #recordLater(run: LiveRun, end: RunEnd): Promise<void> {
    await run.transcript().settle();
    this.#add(run, end);
  }

  #add(run: LiveRun, end: RunEnd): void {
    const { lastPart: part } = run;
    const transcript = run.isStream ? run.transcript() : null;
    this.#journal.add({ run: run.record(), payload: payloadOf(run, end), part, transcript });
    run.settle();
  }
}
