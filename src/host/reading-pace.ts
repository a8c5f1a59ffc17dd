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
  /**
   * Readers that go on when there is time again, by whom they read for. Each owner gets a turn before any gets
   * a second one, so an owner with many processes is not read more often than an owner with one.
   */
  readonly #waiting = new Map<string, (() => void)[]>();

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
  wait(goOn: () => void, owner = ""): void {
    const readers = this.#waiting.get(owner);
    if (readers) readers.push(goOn);
    else this.#waiting.set(owner, [goOn]);
  }

  #begin(): void {
    this.#isTicking = false;
    this.#usedMs = 0;
    // Those who come to wait meanwhile come after all that wait now.
    for (let left = this.#count(); left > 0 && !this.isSpent(); left--) this.#next()?.();
  }

  #count(): number {
    let count = 0;
    for (const readers of this.#waiting.values()) count += readers.length;
    return count;
  }

  /** The reader whose turn it is: of the owner who waits longest, the one that waits longest. */
  #next(): (() => void) | undefined {
    const [first] = this.#waiting;
    if (!first) return undefined;
    const [owner, readers] = first;
    const reader = readers.shift();
    this.#waiting.delete(owner);
    if (readers.length > 0) this.#waiting.set(owner, readers);
    return reader;
  }
}

/** Of this process. */
export const READING_PACE = new ReadingPace();
