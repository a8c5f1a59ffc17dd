import type { Clock } from "../../kit/clock.ts";
import type { Departure, QueuePace } from "../../model/queue-pace.ts";
import type { RunTarget } from "../../replicas/pool.ts";

/** The last departures of each app that are remembered. */
const KEPT = 32;
const NO_CALLS: ReadonlySet<never> = new Set();

type PacesParts = {
  readonly clock: Clock;
  /** Null for an app that takes no runs here. */
  readonly target: (appNumber: number) => RunTarget | null;
  /** No run of the app may begin. */
  readonly isPaused: (appNumber: number) => boolean;
};

type Observed = {
  /** Since the queue was last empty. */
  departures: Departure[];
  /** How many runs have left since the service started. */
  taken: number;
};

/** Observes how fast the queues of the apps move that this node serves. */
export class QueuePaces {
  readonly #parts: PacesParts;
  readonly #observed = new Map<number, Observed>();

  constructor(parts: PacesParts) {
    this.#parts = parts;
  }

  /** Runs were taken out of an app's queue; `isEmpty`: none is left, so how fast they left says nothing. */
  noteTaken(appNumber: number, runs: number, isEmpty: boolean): void {
    const observed = this.#observed.get(appNumber) ?? { departures: [], taken: 0 };
    this.#observed.set(appNumber, observed);
    observed.taken += runs;
    if (isEmpty) observed.departures = [];
    else if (runs > 0)
      observed.departures = [...observed.departures, { at: this.#parts.clock.now(), runs }].slice(-KEPT);
  }

  /** How many runs have left an app's queue since the service started. */
  taken(appNumber: number): number {
    return this.#observed.get(appNumber)?.taken ?? 0;
  }

  /** Null for an app that another node serves, or none, and while its queue is paused. */
  of(appNumber: number): QueuePace | null {
    const target = this.#parts.target(appNumber);
    if (!target || this.#parts.isPaused(appNumber)) return null;
    const { scaling, queue } = target.config;
    const slots = scaling.maxReplicas * scaling.replicaConcurrency;
    const { meanRunMs } = target.slots.outlook(NO_CALLS);
    const departures = this.#observed.get(appNumber)?.departures ?? [];
    return { departures, meanRunMs, capacity: Math.min(slots, queue?.concurrencyLimit ?? slots) };
  }
}
