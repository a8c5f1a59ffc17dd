/** How much older executions count when a new one is seen. */
const KEPT = 0.97;

/** Learns how long an execution takes, by its size: the line through what was seen lately. */
export class DurationTrend {
  #count = 0;
  #size = 0;
  #ms = 0;
  #sizeSquared = 0;
  #sizeByMs = 0;

  add(size: number, ms: number): void {
    this.#count = this.#count * KEPT + 1;
    this.#size = this.#size * KEPT + size;
    this.#ms = this.#ms * KEPT + ms;
    this.#sizeSquared = this.#sizeSquared * KEPT + size * size;
    this.#sizeByMs = this.#sizeByMs * KEPT + size * ms;
  }

  /** Null before the first execution. While all had one size, all of their time counts as fixed. */
  get line(): { readonly fixedMs: number; readonly perSizeMs: number } | null {
    if (this.#count === 0) return null;
    const meanSize = this.#size / this.#count;
    const meanMs = this.#ms / this.#count;
    const spread = this.#sizeSquared / this.#count - meanSize * meanSize;
    // Less than a hundredth of the size says more about the noise than about the size.
    if (spread <= 1e-4 * meanSize * meanSize) return { fixedMs: meanMs, perSizeMs: 0 };
    const slope = (this.#sizeByMs / this.#count - meanSize * meanMs) / spread;
    const perSizeMs = Math.min(Math.max(0, slope), meanSize > 0 ? meanMs / meanSize : 0);
    return { fixedMs: meanMs - perSizeMs * meanSize, perSizeMs };
  }
}

/** Of a new gap, in the mean of their logarithms: a single long one counts for little. */
const NEW_GAP = 1 / 8;
const LEAST_GAP_MS = 0.005;
/** The usual gap is that of the last one to two times so many calls. */
const STEADY_CALLS = 64;
/** How much of the difference the number of callers comes down with each batch that had fewer. */
const FEWER = 1 / 4;

/** Learns in which rhythm the calls of a group come. Times are monotonic milliseconds. */
export class Rhythm {
  /** Calls that replicas hold. */
  inHand = 0;
  #lastMs: number | null = null;
  #burstGapLog: number | null = null;
  #marks = { olderMs: 0, olderCalls: 0, newerMs: 0, newerCalls: 0 };
  #calls = 0;
  #mostAtOnce = 0;
  #mostLately = 0;

  /** A call came, the `waiting`th of its group; `freedMs` is when a slot last became free. */
  came(nowMs: number, freedMs: number, waiting: number, burstWithinMs: number): void {
    const sinceMs = Math.max(this.#lastMs ?? -Infinity, freedMs);
    if (nowMs - freedMs <= burstWithinMs && this.#lastMs !== null) {
      const gap = Math.log(Math.max(LEAST_GAP_MS, nowMs - sinceMs));
      this.#burstGapLog =
        this.#burstGapLog === null ? gap : this.#burstGapLog + (gap - this.#burstGapLog) * NEW_GAP;
    }
    if (this.#lastMs === null) this.#marks = { olderMs: nowMs, olderCalls: 0, newerMs: nowMs, newerCalls: 0 };
    this.#lastMs = nowMs;
    this.#calls += 1;
    const { newerMs, newerCalls } = this.#marks;
    if (this.#calls - newerCalls >= STEADY_CALLS)
      this.#marks = { olderMs: newerMs, olderCalls: newerCalls, newerMs: nowMs, newerCalls: this.#calls };
    this.#noteAtOnce(waiting);
  }

  /** A batch of its calls has left. */
  left(calls: number): void {
    this.#noteAtOnce(calls);
    this.inHand += calls;
  }

  /** That batch is over. */
  over(calls: number): void {
    this.inHand = Math.max(0, this.inHand - calls);
    this.#mostAtOnce = Math.max(
      this.#mostLately,
      this.#mostAtOnce - (this.#mostAtOnce - this.#mostLately) * FEWER,
    );
    this.#mostLately = 0;
  }

  /** Between calls after the end of a batch. */
  get burstGapMs(): number | null {
    return this.#burstGapLog === null ? null : Math.exp(this.#burstGapLog);
  }

  /** Between calls on the whole. */
  get steadyGapMs(): number | null {
    const { olderMs, olderCalls } = this.#marks;
    const calls = this.#calls - olderCalls - 1;
    return this.#lastMs === null || calls <= 0 ? null : (this.#lastMs - olderMs) / calls;
  }

  /** How many calls are missing from those that there were at once, while so many wait. */
  expected(waiting: number): number {
    return Math.round(this.#mostAtOnce) - this.inHand - waiting;
  }

  get lastMs(): number {
    return this.#lastMs ?? -Infinity;
  }

  #noteAtOnce(waiting: number): void {
    const atOnce = this.inHand + waiting;
    this.#mostLately = Math.max(this.#mostLately, atOnce);
    this.#mostAtOnce = Math.max(this.#mostAtOnce, atOnce);
  }
}
