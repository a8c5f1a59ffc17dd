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

/** What a new gap counts for. */
const NEW_GAP = 1 / 8;
/** Callers that ask again after an answer come at this part of the usual gap at most. Of calls that come by chance 2 in 5 do. */
const SOON = 1 / 2;
/** So many gaps must be that short. */
const OFTEN = 0.6;
/** The usual gap is that of the last one to two times so many calls. */
const STEADY_CALLS = 64;
/** How much of the difference the number of callers comes down with each batch that had fewer. */
const FEWER = 1 / 4;

/** Learns in which rhythm the calls of a group come. Times are monotonic milliseconds. */
export class Rhythm {
  /** Calls that replicas hold. */
  inHand = 0;
  #lastMs: number | null = null;
  #soonGapMs = 0;
  /** How many of the gaps after a call, or the end of a batch, are short, from 0 to 1. */
  #soonShare = 0;
  #marks = { olderMs: 0, olderCalls: 0, newerMs: 0, newerCalls: 0 };
  #calls = 0;
  #mostAtOnce = 0;
  #mostLately = 0;

  /** A call came, the `waiting`th of its group; `freedMs` is when a batch last ended. */
  came(nowMs: number, freedMs: number, waiting: number): void {
    this.#noteGap(nowMs - Math.max(this.#lastMs ?? -Infinity, freedMs));
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

  /** Between the calls of callers that were just answered; null if they do not ask again at once. */
  get burstGapMs(): number | null {
    return this.#soonShare >= OFTEN ? this.#soonGapMs : null;
  }

  #noteGap(gapMs: number): void {
    const steadyMs = this.#steadyGapMs;
    if (steadyMs === null) return;
    const isSoon = gapMs <= steadyMs * SOON;
    this.#soonShare += ((isSoon ? 1 : 0) - this.#soonShare) * NEW_GAP;
    if (isSoon) this.#soonGapMs += (gapMs - this.#soonGapMs) * NEW_GAP;
  }

  /** Between calls on the whole. */
  get #steadyGapMs(): number | null {
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
