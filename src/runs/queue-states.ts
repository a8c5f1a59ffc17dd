import type { QueueState } from "../model/queue-limits.ts";
import type { Changes } from "../nodes/changes.ts";
import type { Store } from "../store/store.ts";

type QueueStatesParts = {
  readonly store: Pick<Store, "queueStates">;
  /** No further run of the app may begin. */
  readonly onPaused: (appNumber: number) => void;
  /** Its runs may begin again. */
  readonly onResumed: (appNumber: number) => void;
};

/**
 * Which apps' queues begin no runs, or take none, as the database has it: known here without asking it for each run. Other
 * nodes learn of a change within a second.
 */
export class QueueStates {
  readonly #parts: QueueStatesParts;
  /** Those that are not open. */
  readonly #closed = new Map<number, QueueState>();

  constructor(parts: QueueStatesParts) {
    this.#parts = parts;
  }

  /** Reads the states of all queues. */
  async start(): Promise<void> {
    for (const [appNumber, state] of await this.#parts.store.queueStates.closed(null))
      this.#closed.set(appNumber, state);
  }

  stateOf(appNumber: number): QueueState {
    return this.#closed.get(appNumber) ?? "open";
  }

  isPaused(appNumber: number): boolean {
    return this.#closed.get(appNumber) === "paused";
  }

  isDraining(appNumber: number): boolean {
    return this.#closed.get(appNumber) === "draining";
  }

  /** The queue of an app is in that state from now on. */
  apply(appNumber: number, state: QueueState): void {
    const wasPaused = this.isPaused(appNumber);
    if (state === "open") this.#closed.delete(appNumber);
    else this.#closed.set(appNumber, state);
    const isPaused = state === "paused";
    if (isPaused && !wasPaused) this.#parts.onPaused(appNumber);
    if (wasPaused && !isPaused) this.#parts.onResumed(appNumber);
  }

  /** Learns what other nodes change. */
  follow(changes: Pick<Changes, "on" | "onReset">): void {
    changes.on("queue", (subjects) => this.#refresh(subjects.map(Number)));
    changes.onReset(() => this.#refresh(null));
  }

  /** Of these apps, or of all. */
  async #refresh(appNumbers: readonly number[] | null): Promise<void> {
    const closed = new Map(await this.#parts.store.queueStates.closed(appNumbers));
    const known = appNumbers ?? new Set([...this.#closed.keys(), ...closed.keys()]);
    for (const appNumber of known) this.apply(appNumber, closed.get(appNumber) ?? "open");
  }
}
