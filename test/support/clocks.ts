import { Condition } from "../../src/kit/concurrency.ts";
import type { Clock, Timer } from "../../src/kit/clock.ts";
import { until } from "./until.ts";

/** What Node's own timers can wait for. */
const LONGEST_MS = 2 ** 31 - 1;

type Due = {
  at: number;
  readonly ms: number;
  readonly repeats: boolean;
  readonly act: () => void;
  isPending: boolean;
};

/** Waits until so many timers of a length are set, those that repeat not counted, by something that is on its way to set them. */
async function areSet(
  timers: Iterable<{ readonly ms: number; readonly repeats: boolean }>,
  ms: number,
  count: number,
  news: Condition,
): Promise<void> {
  const set = (): number => [...timers].filter((timer) => timer.ms === ms && !timer.repeats).length;
  await until(`${count} timers of ${ms} ms`, () => set() >= count, news);
}

/** A clock that stands still until a test moves it; what is due on the way is done in order. */
export class HandClock implements Clock {
  #nowMs: number;
  readonly #startMs: number;
  readonly #timers = new Set<Due>();
  /** Notified when a timer is set. */
  readonly #news = new Condition();

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
    return this.#timer({ at: this.#nowMs + ms, ms, repeats: false, act, isPending: true });
  }

  every(ms: number, act: () => void): Timer {
    return this.#timer({ at: this.#nowMs + ms, ms, repeats: true, act, isPending: true });
  }

  /** Lets so many milliseconds pass. */
  advance(ms: number): void {
    const end = this.#nowMs + ms;
    for (let due = this.#first(end); due; due = this.#first(end)) {
      this.#nowMs = Math.max(this.#nowMs, due.at);
      if (due.repeats) due.at += Math.max(1, due.ms);
      else this.#timers.delete(due);
      due.act();
    }
    this.#nowMs = end;
  }

  /** Waits until so many timers of that length are set: then the time can be moved to them. */
  async sets(ms: number, count = 1): Promise<void> {
    await areSet(this.#timers, ms, count, this.#news);
  }

  /** Lets time pass until that is over: an orderly stop has graces that somebody has to wait for. */
  async passDuring(work: Promise<unknown>): Promise<void> {
    const state = { isOver: false };
    const settled = work.finally(() => (state.isOver = true));
    while (!state.isOver) {
      this.advance(100);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await settled;
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

  #timer(due: Due): Timer {
    this.#timers.add(due);
    this.#news.notify();
    return {
      cancel: () => {
        due.isPending = false;
        this.#timers.delete(due);
      },
      restart: () => {
        if (!due.isPending) return;
        due.at = this.#nowMs + due.ms;
        this.#timers.add(due);
        this.#news.notify();
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
  readonly #timers = new Set<{ at: number; readonly ms: number; readonly repeats: boolean; run(): void }>();
  /** Notified when a timer is set. */
  readonly #news = new Condition();

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

  /** Waits until so many timers of that length are set: then the time can be skipped to them. */
  async sets(ms: number, count = 1): Promise<void> {
    await areSet(this.#timers, ms, count, this.#news);
  }

  /** Goes forward as over a night's sleep of the machine: what repeats is done once, however often it was due. */
  leap(ms: number): void {
    this.#skippedMs += ms;
    const due = [...this.#timers].filter(({ at }) => at <= this.monotonic());
    for (const timer of due.toSorted((a, b) => a.at - b.at)) if (this.#timers.has(timer)) timer.run();
  }

  #timer(ms: number, repeats: boolean, act: () => void): Timer {
    let timeout: NodeJS.Timeout | undefined;
    let isCancelled = false;
    const entry = {
      at: 0,
      ms,
      repeats,
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
      if (leftMs > 0.5) timeout = setTimeout(wake, Math.min(leftMs, LONGEST_MS)).unref();
      else entry.run();
    };
    const arm = (): void => {
      clearTimeout(timeout);
      entry.at = this.monotonic() + Math.max(1, ms);
      this.#timers.add(entry);
      timeout = setTimeout(wake, Math.min(ms, LONGEST_MS)).unref();
      this.#news.notify();
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

/** A clock that can also be set, as somebody sets the machine's: no time passes by that. */
export class SettableClock extends SkippingClock {
  /** How far it is ahead of the true time. */
  aheadMs = 0;

  override now(): number {
    return super.now() + this.aheadMs;
  }
}
