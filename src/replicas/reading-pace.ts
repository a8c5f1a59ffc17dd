/** Of every 5 ms, 1 ms. */
const SHARE_MS = 1;
const WINDOW_MS = 5;

/**
 * Reading what apps print may take a fifth of the service's time, however much that is: an app that prints
 * without end waits for its own output, and no other waits with it. (Measured: beside a subprocess that printed
 * 1.5 million lines a second a call took 1.3 s.)
 */
export class ReadingPace {
  #usedMs = 0;
  /** The next window is on its way. */
  #isTicking = false;
  /** Readers that go on when there is time again, the one that waits longest first. */
  #waiting: (() => void)[] = [];

  /** Whether no time is left, when a reader has just used so much more. */
  isSpent(moreMs = 0): boolean {
    return this.#usedMs + moreMs >= SHARE_MS;
  }

  /** Counts what a reader has used. */
  spend(ms: number): void {
    this.#usedMs += ms;
    if (this.#isTicking) return;
    this.#isTicking = true;
    setTimeout(() => this.#begin(), WINDOW_MS);
  }

  /** Calls `goOn` when there is time again; only a reader that has spent some waits. */
  wait(goOn: () => void): void {
    this.#waiting.push(goOn);
  }

  #begin(): void {
    this.#isTicking = false;
    this.#usedMs = 0;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const [i, goOn] of waiting.entries()) {
      if (this.isSpent()) {
        this.#waiting.unshift(...waiting.slice(i));
        return;
      }
      goOn();
    }
  }
}

/** Of this process. */
export const READING_PACE = new ReadingPace();
