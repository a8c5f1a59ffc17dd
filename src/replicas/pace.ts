const WINDOW = 256;
const LEAST_SAMPLES = 64;
/** One in a hundred of the window: what a 99th percentile allows. */
const SLOW_ALLOWED = 2;
const FAST_MS = 1;

/** Remembers how long the app's latest calls took. */
export class Pace {
  readonly #slow = new Uint8Array(WINDOW);
  #slowCount = 0;
  #samples = 0;
  #meanMs = 0;

  add(runMs: number): void {
    const slot = this.#samples % WINDOW;
    const isSlow = runMs >= FAST_MS ? 1 : 0;
    this.#slowCount += isSlow - (this.#slow[slot] ?? 0);
    this.#slow[slot] = isSlow;
    this.#samples += 1;
    // A moving mean over the last twenty calls or so.
    this.#meanMs += (runMs - this.#meanMs) / Math.min(this.#samples, 20);
  }

  /** Calls are short enough that some may be handed to a busy replica ahead of their turn. */
  get isFast(): boolean {
    return this.#samples >= LEAST_SAMPLES && this.#slowCount <= SLOW_ALLOWED;
  }

  /** What one call takes, lately. */
  get meanMs(): number {
    return this.#meanMs;
  }
}
