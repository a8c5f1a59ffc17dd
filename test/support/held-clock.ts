import type { Clock, Timer } from "../../src/kit/clock.ts";

type Due = {
  at: number;
  isPending: boolean;
  timeout: NodeJS.Timeout | undefined;
  readonly fire: () => void;
};

/**
 * The real time, until a test holds it: then it stands still, and what happens all the same is no timer's doing.
 * While it is held the test may move it by hand; when it is let go, it runs on from there.
 */
export class HeldClock implements Clock {
  readonly #timers = new Set<Due>();
  /** Between the machine's monotonic clock and this one, and between this one and the date. */
  #offsetMs = 0;
  readonly #epochMs = Date.now() - performance.now();
  #heldMs: number | null = null;

  now(): number {
    return Math.round(this.#epochMs + this.monotonic());
  }

  monotonic(): number {
    return this.#heldMs ?? performance.now() + this.#offsetMs;
  }

  after(ms: number, act: () => void): Timer {
    return this.#timer(ms, false, act);
  }

  every(ms: number, act: () => void): Timer {
    return this.#timer(ms, true, act);
  }

  /** Stands still from now on. */
  hold(): void {
    this.#heldMs = this.monotonic();
    for (const due of this.#timers) clearTimeout(due.timeout);
  }

  /** Lets so many milliseconds pass while it is held; what is due on the way is done in order. */
  advance(ms: number): void {
    if (this.#heldMs === null) throw new Error("the clock is not held");
    const end = this.#heldMs + ms;
    for (let due = this.#first(end); due; due = this.#first(end)) {
      this.#heldMs = Math.max(this.#heldMs, due.at);
      due.fire();
    }
    this.#heldMs = end;
  }

  /** Lets so many milliseconds pass now: what would be due later is due before this returns. */
  skip(ms: number): void {
    this.hold();
    this.advance(ms);
    this.release();
  }

  /** Goes on. */
  release(): void {
    if (this.#heldMs === null) return;
    this.#offsetMs = this.#heldMs - performance.now();
    this.#heldMs = null;
    for (const due of this.#timers) this.#wait(due);
  }

  #first(before: number): Due | null {
    let first: Due | null = null;
    for (const due of this.#timers) if (due.at <= before && (!first || due.at < first.at)) first = due;
    return first;
  }

  #wait(due: Due): void {
    clearTimeout(due.timeout);
    if (this.#heldMs !== null) return;
    due.timeout = setTimeout(due.fire, Math.max(1, due.at - this.monotonic())).unref();
  }

  #timer(ms: number, repeats: boolean, act: () => void): Timer {
    const end = (): void => {
      clearTimeout(due.timeout);
      this.#timers.delete(due);
    };
    const arm = (): void => {
      due.at = this.monotonic() + Math.max(1, ms);
      this.#timers.add(due);
      this.#wait(due);
    };
    const due: Due = {
      at: 0,
      isPending: true,
      timeout: undefined,
      fire: () => {
        if (repeats) arm();
        else end();
        act();
      },
    };
    arm();
    return {
      cancel: () => {
        due.isPending = false;
        end();
      },
      restart: () => {
        if (due.isPending) arm();
      },
    };
  }
}
