import type { Clock } from "./clock.ts";

/** This many at once, then one more after each gap. */
export type Allowance = { readonly burst: number; readonly gapMs: number };

/** Beyond this the key that was longest unused is forgotten. */
const MAX_KEYS = 10_000;

/** Counts attempts by key. It keeps one number for each: the time at which the key's allowance is full again. */
export class AttemptLimiter {
  readonly #allowance: Allowance;
  readonly #clock: Clock;
  readonly #freeAt = new Map<string, number>();

  constructor(allowance: Allowance, clock: Clock) {
    this.#allowance = allowance;
    this.#clock = clock;
  }

  /** Takes one attempt: 0 if one is left, otherwise the milliseconds until there is one. */
  take(key: string): number {
    const { burst, gapMs } = this.#allowance;
    const now = this.#clock.monotonic();
    const freeAt = Math.max(this.#freeAt.get(key) ?? now, now) + gapMs;
    const waitMs = freeAt - now - burst * gapMs;
    if (waitMs > 0) return waitMs;
    this.#set(key, freeAt);
    return 0;
  }

  /** As if the last attempt had not been made. */
  giveBack(key: string): void {
    const freeAt = this.#freeAt.get(key);
    if (freeAt !== undefined) this.#set(key, freeAt - this.#allowance.gapMs);
  }

  #set(key: string, freeAt: number): void {
    // Inserted again, so that the first key is always the least recently used one.
    this.#freeAt.delete(key);
    this.#freeAt.set(key, freeAt);
    if (this.#freeAt.size <= MAX_KEYS) return;
    const [oldest] = this.#freeAt.keys();
    if (oldest !== undefined) this.#freeAt.delete(oldest);
  }
}
