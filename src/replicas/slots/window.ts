type Point = { readonly at: number; readonly value: number };

/** What was read of a number over the latest interval. Times are monotonic milliseconds. */
export class Window {
  readonly #intervalMs: number;
  /** Oldest first; the first may be older than the interval, so that all of it is covered. */
  readonly #points: Point[] = [];

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs;
  }

  /** Notes what the number is now. */
  add(at: number, value: number): void {
    this.#points.push({ at, value });
    const begin = at - this.#intervalMs;
    while ((this.#points[1]?.at ?? Number.POSITIVE_INFINITY) <= begin) this.#points.shift();
  }

  /**
   * What a number that only grows grew by, per millisecond of the interval. Time before the first reading counts as
   * no growth: what was just begun is not taken for what goes on.
   */
  get growthPerMs(): number {
    const first = this.#points[0];
    const last = this.#points.at(-1);
    if (!first || !last) return 0;
    return Math.max(0, last.value - first.value) / Math.max(this.#intervalMs, last.at - first.at);
  }

  /** The mean of the readings; 0 without any. */
  get mean(): number {
    const sum = this.#points.reduce((total, { value }) => total + value, 0);
    return sum / Math.max(1, this.#points.length);
  }
}
