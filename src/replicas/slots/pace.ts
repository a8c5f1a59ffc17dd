import type { Refused } from "../../model/outcome.ts";

const WINDOW = 256;
const LEAST_SAMPLES = 64;
/** One in a hundred of the window: what a 99th percentile allows. */
const SLOW_ALLOWED = 2;
const FAST_MS = 1;
/** How long a call handed ahead may wait at the replica, by the latest measure. */
const AHEAD_MS = 0.5;
/**
 * At 32 connections 7 ahead cost 1.03 to 1.26 times the CPU of 31 in three interleaved pairs on a noisy machine;
 * calls per second did not settle it (0.80, 0.94 and 1.21 of 31).
 */
const MAX_AHEAD = 31;

/** Remembers how long the app's latest calls took. */
export class Pace {
  readonly #slow = new Uint8Array(WINDOW);
  #slowCount = 0;
  #samples = 0;
  /** What one call takes, lately. */
  meanMs = 0;

  add(runMs: number): void {
    const slot = this.#samples % WINDOW;
    const isSlow = runMs >= FAST_MS ? 1 : 0;
    this.#slowCount += isSlow - (this.#slow[slot] ?? 0);
    this.#slow[slot] = isSlow;
    this.#samples += 1;
    // A moving mean over the last twenty calls or so.
    this.meanMs += (runMs - this.meanMs) / Math.min(this.#samples, 20);
  }

  /** How many calls may be handed ahead to a busy replica: none unless the app is fast. */
  get ahead(): number {
    if (this.#samples < LEAST_SAMPLES || this.#slowCount > SLOW_ALLOWED) return 0;
    return Math.min(MAX_AHEAD, Math.floor(AHEAD_MS / this.meanMs));
  }

  /** How many calls one slot completes in a span, by the latest measure; 0 if unknown. */
  callsIn(spanMs: number): number {
    return this.#samples === 0 ? 0 : spanMs / this.meanMs;
  }
}

const MAX_SECONDS = 60;

/** Refuses a caller if there is no room; it may retry when the calls before it are served. */
export function overload(
  code: "queue_full" | "queue_timeout" | "no_gpu_free",
  queue: { readonly waiting: number; readonly slots: number; readonly meanMs: number },
): Refused {
  const clearsInSeconds = (queue.waiting * queue.meanMs) / queue.slots / 1000;
  const retryAfterSeconds = Math.min(MAX_SECONDS, Math.max(1, Math.ceil(clearsInSeconds)));
  return { kind: "refused", code, retryAfterSeconds };
}
