import { ExponentialCounts } from "./exponential-counts.ts";

/** A value of a class that can be looked up. */
export type Exemplar = {
  readonly traceId: string;
  readonly ms: number;
  /** Epoch milliseconds. */
  readonly at: number;
};

/** Durations, counted in classes with fixed bounds. */
export class SpanCounts {
  /** The rising upper bound of each class; longer durations are in none. */
  readonly boundsMs: readonly number[];
  /** How many fell into each class and into no earlier one. */
  readonly counts: number[];
  count = 0;
  sumMs = 0;
  /** The latest of each class, and of those that are longer; null until there is one. */
  exemplars: (Exemplar | undefined)[] | null = null;
  /** The same durations in seconds; null unless they were asked for. */
  exponential: ExponentialCounts | null;

  constructor(boundsMs: readonly number[], isExponential = false) {
    this.boundsMs = boundsMs;
    this.exponential = isExponential ? new ExponentialCounts() : null;
    this.counts = boundsMs.map(() => 0);
  }

  add(ms: number): void {
    this.#count(ms);
  }

  /** The same for a duration that has a trace. */
  addTraced(ms: number, traceId: string, at: number): void {
    this.exemplars ??= [];
    this.exemplars[this.#count(ms)] = { traceId, ms, at };
  }

  /** Adds all that another one with the same bounds has. */
  addAll(other: SpanCounts): void {
    this.count += other.count;
    this.sumMs += other.sumMs;
    for (let i = 0; i < this.counts.length; i++) this.counts[i]! += other.counts[i] ?? 0;
    if (other.exponential) (this.exponential ??= new ExponentialCounts()).addAll(other.exponential);
    if (!other.exemplars) return;
    const own = (this.exemplars ??= []);
    for (const [i, exemplar] of other.exemplars.entries())
      if (exemplar && exemplar.at >= (own[i]?.at ?? 0)) own[i] = exemplar;
  }

  /** Counts it and returns its class. A loop, because it runs for each call. */
  #count(ms: number): number {
    this.count += 1;
    this.sumMs += ms;
    const { boundsMs } = this;
    if (this.exponential) this.exponential.add(ms / 1000);
    let index = 0;
    while (index < boundsMs.length && ms > boundsMs[index]!) index += 1;
    if (index < boundsMs.length) this.counts[index]! += 1;
    return index;
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
