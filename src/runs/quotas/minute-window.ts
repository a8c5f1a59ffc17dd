const SECOND_MS = 1_000;
const MINUTE_SECONDS = 60;
/** The seconds of a minute that began within another one. */
const SLOTS = MINUTE_SECONDS + 1;

/**
 * Counts calls of the last minute, second by second: the same memory for any number. What was counted stays for 60 to 61
 * seconds, so that no minute has more than it says, wherever it begins.
 */
export class MinuteWindow {
  readonly #counts = new Uint32Array(SLOTS);
  #second = 0;
  #total = 0;

  /** By a clock that only grows. */
  count(nowMs: number): number {
    this.#moveTo(nowMs);
    return this.#total;
  }

  add(nowMs: number): void {
    this.#moveTo(nowMs);
    this.#counts[this.#second % SLOTS]! += 1;
    this.#total += 1;
  }

  /** Milliseconds until at most so many are left. */
  waitMs(nowMs: number, most: number): number {
    this.#moveTo(nowMs);
    let left = this.#total;
    // From the oldest second on.
    for (let age = SLOTS - 1; age >= 0; age--) {
      if (left <= most) break;
      const second = this.#second - age;
      if (second < 0) continue;
      left -= this.#counts[second % SLOTS]!;
      if (left <= most) return (second + SLOTS) * SECOND_MS - nowMs;
    }
    return 0;
  }

  #moveTo(nowMs: number): void {
    const second = Math.floor(nowMs / SECOND_MS);
    const first = Math.max(this.#second + 1, second - MINUTE_SECONDS);
    for (let next = first; next <= second; next++) {
      this.#total -= this.#counts[next % SLOTS]!;
      this.#counts[next % SLOTS] = 0;
    }
    this.#second = Math.max(second, this.#second);
  }
}
