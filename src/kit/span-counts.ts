/** How long things took, counted in classes: a few additions each, whatever is asked of it later. */
export class SpanCounts {
  /** The upper bound of each class, in milliseconds, rising; what is longer than all is in none. */
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
