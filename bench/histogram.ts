const FINE_BUCKETS = 1 << 16;
const COARSE_BUCKETS = 1 << 16;
const COARSE_US = 1_000;

/** Latencies in fixed memory: exact to 1 µs up to 65 ms, to 1 ms up to 65 s, the rest in the last bucket. */
export class Histogram {
  readonly #fine = new Uint32Array(FINE_BUCKETS);
  readonly #coarse = new Uint32Array(COARSE_BUCKETS);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(us: number): void {
    const whole = Math.max(0, Math.round(us));
    this.#count += 1;
    if (whole < FINE_BUCKETS) {
      this.#fine[whole]! += 1;
    } else {
      this.#coarse[Math.min(COARSE_BUCKETS - 1, Math.floor(whole / COARSE_US))]! += 1;
    }
  }

  /** The smallest latency that at least this share (0 to 1) of all calls did not exceed; 0 when empty. */
  quantileUs(share: number): number {
    const wanted = Math.max(1, Math.ceil(this.#count * share));
    let seen = 0;
    for (const [us, calls] of this.#fine.entries()) {
      seen += calls;
      if (seen >= wanted) return us;
    }
    for (const [bucket, calls] of this.#coarse.entries()) {
      seen += calls;
      if (seen >= wanted) return (bucket + 1) * COARSE_US;
    }
    return 0;
  }
}
