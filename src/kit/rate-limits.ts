import type { Clock } from "./clock.ts";

/** This many at once, then one more after each gap. */
type Allowance = { readonly burst: number; readonly gapMs: number };

/** Beyond this, the least recently used key is forgotten. */
const MAX_KEYS = 10_000;

/** Limits attempts by key. Keeps one number for each: the time at which its allowance is full again. */
export class AttemptLimiter {
  readonly #allowance: Allowance;
  readonly #clock: Clock;
  readonly #freeAt = new Map<string, number>();

  constructor(allowance: Allowance, clock: Clock) {
    this.#allowance = allowance;
    this.#clock = clock;
  }

  /** Takes an attempt: 0, or the milliseconds until there is one. */
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
    // Inserted again: the first key is the least recently used one.
    this.#freeAt.delete(key);
    this.#freeAt.set(key, freeAt);
    const [oldest = key] = this.#freeAt.keys();
    if (this.#freeAt.size > MAX_KEYS) this.#freeAt.delete(oldest);
  }
}

/** When each of the last minute's calls was made, the oldest first from `from` on. */
type Window = { times: number[]; from: number };

const MINUTE_MS = 60_000;
/** Keys that each call checks for expiry, so that none is kept long after its last minute. */
const LOOKS = 2;

/** Limits calls by key in any minute, wherever it begins. Keeps a number for each call of the last minute. */
export class MinuteLimiter {
  readonly #clock: Clock;
  /** In the order in which they were last counted. */
  readonly #windows = new Map<string, Window>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a call: 0 if the key may make one, otherwise the milliseconds until it may. */
  take(key: string, max: number): number {
    const now = this.#clock.monotonic();
    const window = this.#windows.get(key) ?? { times: [], from: 0 };
    const { times } = window;
    while (window.from < times.length && now - times[window.from]! >= MINUTE_MS) window.from += 1;
    const count = times.length - window.from;
    // After the limit was lowered, several calls have to expire.
    if (count >= max) return Math.max(1, times[times.length - max]! + MINUTE_MS - now);
    if (window.from > count) {
      window.times = times.slice(window.from);
      window.from = 0;
    }
    window.times.push(now);
    this.#windows.delete(key);
    this.#windows.set(key, window);
    this.#dropOld(now);
    return 0;
  }

  /** How many keys are remembered. */
  get size(): number {
    return this.#windows.size;
  }

  #dropOld(now: number): void {
    let looks = LOOKS;
    for (const [key, { times }] of this.#windows) {
      if (looks === 0 || now - (times.at(-1) ?? 0) < MINUTE_MS) return;
      this.#windows.delete(key);
      looks -= 1;
    }
  }
}
