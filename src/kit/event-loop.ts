import type { Clock } from "./clock.ts";
import { performance } from "node:perf_hooks";

/** `step` takes some microseconds; it returns whether another one is due. */
export type Work = { step(): boolean };

/** The maximum time before other work gets the event loop. */
const SLICE_MS = 0.5;
/** After a full slice, other work gets this many times as long: all steps together take a fifth of the loop's time. */
const REST_SHARE = 4;

/** Does much small work without blocking the event loop: in slices of time, owners in turn, each owner's works in turn. */
export class TimeSlicer {
  readonly #clock: Clock;
  /** In the order of turns, of owners and of their works. */
  readonly #queues = new Map<string, Set<Work>>();
  #isScheduled = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Does the work's steps until none is due. Idempotent. */
  add(owner: string, work: Work): void {
    const queue = this.#queues.get(owner);
    if (queue) queue.add(work);
    else this.#queues.set(owner, new Set([work]));
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#serve());
  }

  #serve(): void {
    const begunAt = this.#clock.monotonic();
    let spentMs = 0;
    // An owner that is inserted again is visited again by this loop.
    for (const [owner, works] of this.#queues) {
      const [work] = works;
      if (work) {
        works.delete(work);
        if (work.step()) works.add(work);
      }
      this.#queues.delete(owner);
      if (works.size > 0) this.#queues.set(owner, works);
      spentMs = this.#clock.monotonic() - begunAt;
      if (spentMs >= SLICE_MS) break;
    }
    this.#isScheduled = this.#queues.size > 0;
    if (this.#isScheduled) this.#clock.after(Math.ceil(spentMs * REST_SHARE), () => this.#serve());
  }
}

/** Some three milliseconds of refusals. */
const PER_TURN = 32;

/**
 * Does much small work in order, a few pieces for each turn of the event loop. Measured on a busy machine with 7,500
 * connections: refusing all late ones at once stopped the loop for up to 0.65 s.
 */
export class ImmediateQueue {
  readonly #waiting: (() => void)[] = [];

  add(work: () => void): void {
    if (this.#waiting.push(work) === 1) setImmediate(() => this.#turn());
  }

  #turn(): void {
    const some = this.#waiting.slice(0, PER_TURN);
    for (const work of some) work();
    // Not more: the work may have added more.
    this.#waiting.splice(0, some.length);
    if (this.#waiting.length > 0) setImmediate(() => this.#turn());
  }
}

/** Returns a function that gives the share of the time since its last call in which this thread worked, from 0 to 1. */
export function busyShare(): () => number {
  let last = performance.eventLoopUtilization();
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, last);
    last = now;
    return utilization;
  };
}

/** Below this share a thread counts as idle. */
export const CALM_SHARE = 0.05;
