import type { Clock, Timer } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { Store } from "../../store/store.ts";
import type { QueuePaces } from "./paces.ts";

/** How many runs waited at a moment, by head start, and how many had begun since the moment before. */
type QueueMoment = {
  readonly high: number;
  readonly normal: number;
  readonly low: number;
  readonly begun: number;
};

/** What is remembered of a queue: moments that are `STEP_MS` apart, the first one at `fromMs`. */
type RememberedQueue = { readonly fromMs: number; readonly moments: readonly QueueMoment[] };

export const STEP_MS = 10_000;
/** An hour. */
const KEPT = 360;
/** Queues that are counted at a time, and runs of each; that takes 10 ms. With more queues, they take turns. */
const COUNTED_AT_ONCE = 50;
const MOST_COUNTED = 10_000;
/** An hour of one takes 20 KB. */
const MOST_REMEMBERED = 1_000;
const EMPTY: QueueMoment = { high: 0, normal: 0, low: 0, begun: 0 };

type HistoryParts = {
  readonly store: Pick<Store, "claims" | "queueDepth">;
  readonly clock: Clock;
  readonly log: Log;
  readonly paces: Pick<QueuePaces, "taken">;
  /** Whether this node serves the app. */
  readonly serves: (appNumber: number) => boolean;
};

type Remembered = { moments: QueueMoment[]; endMs: number; taken: number };

/** Remembers how many runs waited in the queues of the apps that this node serves, while any did, for an hour. */
export class QueueHistory {
  readonly #parts: HistoryParts;
  readonly #remembered = new Map<number, Remembered>();
  /** Apps in the order in which they were counted, the last one at the end. */
  #turns: readonly number[] = [];
  readonly #timer: Timer;
  #looking: Promise<void> | null = null;

  constructor(parts: HistoryParts) {
    this.#parts = parts;
    this.#timer = parts.clock.every(STEP_MS, () => {
      this.#looking ??= this.#look()
        .catch((error: unknown) => parts.log.debug({ err: error }, "could not count the runs in queues"))
        .finally(() => (this.#looking = null));
    });
  }

  async stop(): Promise<void> {
    this.#timer.cancel();
    await this.#looking;
  }

  /** The last hour of an app's queue; empty moments where nothing waited. */
  of(appNumber: number): RememberedQueue {
    const endMs = this.#nowStep();
    const { moments = [], endMs: lastMs = endMs } = this.#remembered.get(appNumber) ?? {};
    const since = Math.round((endMs - lastMs) / STEP_MS);
    const all = [...moments, ...emptyMoments(since)].slice(-KEPT);
    return { fromMs: endMs - (KEPT - 1) * STEP_MS, moments: [...emptyMoments(KEPT - all.length), ...all] };
  }

  async #look(): Promise<void> {
    const { store, paces, serves } = this.#parts;
    const endMs = this.#nowStep();
    const waiting = new Set((await store.claims.backlog()).filter(serves));
    const counted = this.#inTurn(waiting);
    for (const appNumber of counted) {
      const { high, normal, low } = await store.queueDepth.of({ appNumber, most: MOST_COUNTED });
      this.#add(appNumber, { high, normal, low }, endMs, paces.taken(appNumber));
    }
    // Those that have begun to be remembered go on for a while after they are empty.
    for (const appNumber of this.#remembered.keys()) {
      if (counted.has(appNumber)) continue;
      if (waiting.has(appNumber)) {
        const last = this.#remembered.get(appNumber)?.moments.at(-1) ?? EMPTY;
        this.#add(appNumber, last, endMs, paces.taken(appNumber));
        continue;
      }
      const remembered = this.#remembered.get(appNumber);
      const isOld = remembered?.moments.every((moment) => sumOf(moment) === 0) ?? true;
      if (isOld || !serves(appNumber)) this.#remembered.delete(appNumber);
      else this.#add(appNumber, EMPTY, endMs, paces.taken(appNumber));
    }
  }

  /** The queues that are counted now: those that were not for longest. */
  #inTurn(waiting: ReadonlySet<number>): ReadonlySet<number> {
    const before = this.#turns.filter((appNumber) => waiting.has(appNumber));
    const inTurn = new Set(before);
    const known = new Set([...before, ...this.#remembered.keys()]);
    const others = [...waiting].filter((appNumber) => !inTurn.has(appNumber));
    const back = others.filter((appNumber) => known.has(appNumber));
    const added = others.filter((appNumber) => !known.has(appNumber));
    const all = [...back, ...added.slice(0, Math.max(0, MOST_REMEMBERED - known.size)), ...before];
    this.#turns = [...all.slice(COUNTED_AT_ONCE), ...all.slice(0, COUNTED_AT_ONCE)];
    return new Set(all.slice(0, COUNTED_AT_ONCE));
  }

  #add(appNumber: number, depth: Omit<QueueMoment, "begun">, endMs: number, taken: number): void {
    const { high, normal, low } = depth;
    const last = this.#remembered.get(appNumber);
    const begun = last ? taken - last.taken : 0;
    const skipped = last ? Math.round((endMs - last.endMs) / STEP_MS) - 1 : 0;
    const moments = [...(last?.moments ?? []), ...emptyMoments(skipped), { high, normal, low, begun }].slice(
      -KEPT,
    );
    this.#remembered.set(appNumber, { moments, endMs, taken });
  }

  #nowStep(): number {
    return Math.floor(this.#parts.clock.now() / STEP_MS) * STEP_MS;
  }
}

function emptyMoments(count: number): QueueMoment[] {
  return Array.from({ length: Math.min(KEPT, Math.max(0, count)) }, () => EMPTY);
}

function sumOf({ high, normal, low, begun }: QueueMoment): number {
  return high + normal + low + begun;
}
