import type { Clock } from "./clock.ts";
import { performance } from "node:perf_hooks";

/** Something that is done in small steps. */
export type Work = {
  /** Does one step, which takes some microseconds; whether another one is due. */
  step(): boolean;
};

/** Work is done for this long at most before the event loop is left to others. */
const SLICE_MS = 0.5;
/** After a full slice others get this many times as long, so all steps together take a fifth of the loop's time. */
const REST_SHARE = 4;

/**
 * Does much small work without holding up the event loop: a slice at a time, owners in turn, and the works of each in
 * turn. As long as a slice is enough for everything, nothing waits.
 */
export class TimeSlicer {
  readonly #clock: Clock;
  /** In the order in which owners, and the works of each, have their turn. */
  readonly #queues = new Map<string, Set<Work>>();
  #isScheduled = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Has the work's steps done until none is due. Idempotent. */
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
    // An owner that is put at the end of the line comes again in the same loop.
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
 * Does much small work a few pieces at a time, in order, with the event loop free in between. Measured on a busy
 * machine, with 7,500 connections: those whose time was over, refused at once, stopped the loop for up to 0.65 s.
 */
export class ImmediateQueue {
  readonly #waiting: (() => void)[] = [];
  #isUnderWay = false;

  add(work: () => void): void {
    this.#waiting.push(work);
    if (!this.#isUnderWay) this.#next();
  }

  #next(): void {
    this.#isUnderWay = this.#waiting.length > 0;
    if (this.#isUnderWay) setImmediate(() => this.#turn());
  }

  #turn(): void {
    for (const work of this.#waiting.splice(0, PER_TURN)) work();
    this.#next();
  }
}

/** Returns a function that gives the part of the time since its last call that this thread was at work, from 0 to 1. */
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
