import type { Clock, Timer } from "../../src/kit/clock.ts";

type Due = { at: number; readonly everyMs: number | null; readonly act: () => void; isPending: boolean };

/** A clock that stands still until a test moves it; what is due on the way is done in order. */
export class HandClock implements Clock {
  #nowMs: number;
  readonly #startMs: number;
  readonly #timers = new Set<Due>();

  constructor(nowMs = Date.UTC(2026, 0, 15, 12)) {
    this.#nowMs = nowMs;
    this.#startMs = nowMs;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Sets the time. Backwards is somebody setting the machine's clock, and nothing is due by that. */
  set nowMs(ms: number) {
    if (ms > this.#nowMs) this.advance(ms - this.#nowMs);
    else this.#nowMs = ms;
  }

  /** How many timers wait. */
  get pending(): number {
    return this.#timers.size;
  }

  now(): number {
    return this.#nowMs;
  }

  monotonic(): number {
    return this.#nowMs;
  }

  after(ms: number, act: () => void): Timer {
    return this.#timer(ms, { at: this.#nowMs + ms, everyMs: null, act, isPending: true });
  }

  every(ms: number, act: () => void): Timer {
    return this.#timer(ms, { at: this.#nowMs + ms, everyMs: ms, act, isPending: true });
  }

  /** Lets so many milliseconds pass. */
  advance(ms: number): void {
    const end = this.#nowMs + ms;
    for (let due = this.#first(end); due; due = this.#first(end)) {
      this.#nowMs = Math.max(this.#nowMs, due.at);
      if (due.everyMs === null) this.#timers.delete(due);
      else due.at += Math.max(1, due.everyMs);
      due.act();
    }
    this.#nowMs = end;
  }

  /** Milliseconds since it was made. */
  get elapsedMs(): number {
    return this.#nowMs - this.#startMs;
  }

  #first(before: number): Due | null {
    let first: Due | null = null;
    for (const due of this.#timers) if (due.at <= before && (!first || due.at < first.at)) first = due;
    return first;
  }

  #timer(ms: number, due: Due): Timer {
    this.#timers.add(due);
    return {
      cancel: () => {
        due.isPending = false;
        this.#timers.delete(due);
      },
      restart: () => {
        if (!due.isPending) return;
        due.at = this.#nowMs + ms;
        this.#timers.add(due);
      },
    };
  }
}

/**
 * The real time, and a test may skip some of it: a service under test goes on as ever, and what would be due in
 * fifteen seconds is due now.
 */
export class SkippingClock implements Clock {
  #skippedMs = 0;
  readonly #timers = new Set<{ at: number; run(): void }>();

  now(): number {
    // Whole milliseconds, as the system's clock gives them.
    return Math.floor(Date.now() + this.#skippedMs);
  }

  monotonic(): number {
    return performance.now() + this.#skippedMs;
  }

  after(ms: number, act: () => void): Timer {
    return this.#timer(ms, false, act);
  }

  every(ms: number, act: () => void): Timer {
    return this.#timer(ms, true, act);
  }

  /** Goes forward; what has become due is done before this returns, in order. */
  skip(ms: number): void {
    const end = this.monotonic() + ms;
    for (;;) {
      const [first] = [...this.#timers].filter(({ at }) => at <= end).toSorted((a, b) => a.at - b.at);
      if (!first) break;
      this.#skippedMs += Math.max(0, first.at - this.monotonic());
      first.run();
    }
    this.#skippedMs += Math.max(0, end - this.monotonic());
  }

  #timer(ms: number, repeats: boolean, act: () => void): Timer {
    let timeout: NodeJS.Timeout | undefined;
    let isCancelled = false;
    const entry = {
      at: 0,
      run: (): void => {
        // Else what was skipped to would be done again when its own time comes.
        clearTimeout(timeout);
        if (repeats) arm();
        else this.#timers.delete(entry);
        act();
      },
    };
    const wake = (): void => {
      const leftMs = entry.at - this.monotonic();
      // Node's timers may come a fraction of a millisecond early.
      if (leftMs > 0.5) timeout = setTimeout(wake, leftMs).unref();
      else entry.run();
    };
    const arm = (): void => {
      clearTimeout(timeout);
      entry.at = this.monotonic() + Math.max(1, ms);
      this.#timers.add(entry);
      timeout = setTimeout(wake, ms).unref();
    };
    arm();
    return {
      cancel: () => {
        isCancelled = true;
        clearTimeout(timeout);
        this.#timers.delete(entry);
      },
      restart: () => {
        if (!isCancelled) arm();
      },
    };
  }
}
