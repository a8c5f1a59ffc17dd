/** Durations, counted in classes with fixed bounds. */
export class SpanCounts {
  /** The rising upper bound of each class; longer durations are in none. */
  readonly boundsMs: readonly number[];
  /** How many fell into each class and into no earlier one. */
  readonly counts: number[];
  count = 0;
  sumMs = 0;

  constructor(boundsMs: readonly number[]) {
    this.boundsMs = boundsMs;
    this.counts = boundsMs.map(() => 0);
  }

  add(ms: number): void {
    this.count += 1;
    this.sumMs += ms;
    const index = this.boundsMs.findIndex((bound) => ms <= bound);
    if (index >= 0) this.counts[index]! += 1;
  }
}

/** Neighbours differ by a twentieth, so percentiles are at most 2.5 % off. */
export const CLASS_RATIO = 1.05;

/** Durations in classes that grow with their length, so that few are needed. */
export class SpanClasses {
  readonly #counts = new Map<number, number>();
  #total = 0;

  /** `spanClass` is the logarithm of the milliseconds to the base `CLASS_RATIO`, rounded down. */
  add(spanClass: number, count: number): void {
    this.#counts.set(spanClass, (this.#counts.get(spanClass) ?? 0) + count);
    this.#total += count;
  }

  /** The percentile for a share (0.95 for the p95), in milliseconds; null if there are no values. */
  percentile(share: number): number | null {
    let before = 0;
    for (const [spanClass, count] of [...this.#counts].toSorted(([a], [b]) => a - b)) {
      before += count;
      if (before >= share * this.#total) return CLASS_RATIO ** (spanClass + 0.5);
    }
    return null;
  }
}
