import { backoffMs } from "../../kit/backoff.ts";
import type { Clock } from "../../kit/clock.ts";
import { pause } from "../../kit/pause.ts";

/** Something that waits to be made. */
export type QueuedPod = {
  /** Tries to make it; `later` where the cluster has no room now, or does not answer. */
  make(): Promise<"done" | "later">;
};

/** As many as the API takes at once from one of its clients. */
const AT_ONCE = 8;
const FIRST_WAIT_MS = 500;
/** Short enough that room is used soon after it is there. */
const LONGEST_WAIT_MS = 5_000;

/**
 * The pods that are to be made, a few at a time. When one finds no room, all pause, and it goes to the end: however
 * many wait, a full cluster is asked at a steady, low rate, and one that is too large holds up nobody for good.
 */
export class PodQueue {
  readonly #clock: Clock;
  readonly #stopped: AbortSignal;
  #waiting: QueuedPod[] = [];
  #inHand = 0;
  /** Since the last one that was made. */
  #failures = 0;
  #resting: Promise<void> | null = null;

  constructor(clock: Clock, stopped: AbortSignal) {
    this.#clock = clock;
    this.#stopped = stopped;
  }

  add(pod: QueuedPod): void {
    this.#waiting.push(pod);
    this.#pump();
  }

  /** False where it is not waiting: it is being made, or was. */
  remove(pod: QueuedPod): boolean {
    const left = this.#waiting.filter((other) => other !== pod);
    const isFound = left.length < this.#waiting.length;
    this.#waiting = left;
    return isFound;
  }

  #pump(): void {
    // While there was no room, one finds out for all.
    const most = this.#failures > 0 ? 1 : AT_ONCE;
    while (this.#resting === null && this.#inHand < most && !this.#stopped.aborted) {
      const next = this.#waiting.shift();
      if (!next) return;
      this.#inHand += 1;
      void this.#make(next);
    }
  }

  async #make(pod: QueuedPod): Promise<void> {
    const result = await pod.make();
    this.#inHand -= 1;
    if (result === "done") this.#failures = 0;
    else {
      this.#waiting.push(pod);
      this.#resting ??= this.#rest();
    }
    this.#pump();
  }

  async #rest(): Promise<void> {
    this.#failures += 1;
    await pause(this.#clock, backoffMs(this.#failures, FIRST_WAIT_MS, LONGEST_WAIT_MS), this.#stopped);
    this.#resting = null;
    this.#pump();
  }
}
