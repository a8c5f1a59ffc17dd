/** At the first scale each class is 4.4 % wider than the one before. */
const FIRST_SCALE = 4;
/** As OpenTelemetry's own; if more are needed, neighbours are joined and classes are twice as wide. */
const MAX_CLASSES = 160;

/**
 * Positive values, counted in classes that grow with them: class i is above b ** i, up to b ** (i + 1), where b is
 * 2 ** 2 ** -scale. It needs no bounds, and its classes fit those of any other.
 */
export class ExponentialCounts {
  scale = FIRST_SCALE;
  /** Values that are not above 0. */
  zeros = 0;
  /** The class of the first count. */
  offset = 0;
  counts: number[] = [];

  add(value: number): void {
    if (value > 0) this.#count(Math.ceil(Math.log2(value) * 2 ** this.scale) - 1, 1);
    else this.zeros += 1;
  }

  /** Adds all that another one has. */
  addAll(other: ExponentialCounts): void {
    this.zeros += other.zeros;
    while (this.scale > other.scale) this.#join();
    for (const [i, count] of other.counts.entries())
      // Counting may join classes.
      if (count > 0) this.#count((other.offset + i) >> (other.scale - this.scale), count);
  }

  #count(index: number, count: number): void {
    let at = index;
    while (!this.#reach(at)) {
      this.#join();
      at >>= 1;
    }
    this.counts[at - this.offset]! += count;
  }

  /** Makes room for a class; false if there would be too many. */
  #reach(index: number): boolean {
    if (this.counts.length === 0) this.offset = index;
    const first = Math.min(this.offset, index);
    const last = Math.max(this.offset + this.counts.length - 1, index);
    if (last - first >= MAX_CLASSES) return false;
    while (this.offset > first) {
      this.counts.unshift(0);
      this.offset -= 1;
    }
    while (this.offset + this.counts.length <= last) this.counts.push(0);
    return true;
  }

  /** Joins classes in pairs, as those of half the scale are. */
  #join(): void {
    const joined: number[] = [];
    const offset = this.offset >> 1;
    for (const [i, count] of this.counts.entries()) {
      const place = ((this.offset + i) >> 1) - offset;
      joined[place] = (joined[place] ?? 0) + count;
    }
    this.scale -= 1;
    this.offset = offset;
    this.counts = joined;
  }
}
