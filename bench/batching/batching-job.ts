/** How calls come: from connections that call again at once, or at a rate, whatever becomes of earlier ones. */
export type Arrivals =
  | { readonly kind: "closed"; readonly connections: number }
  | { readonly kind: "open"; readonly perSecond: number };

/** One measurement for the load generator of batches. */
export type BatchingJob = {
  readonly host: string;
  readonly port: number;
  /** The whole HTTP request, head and body, one character per byte. */
  readonly request: string;
  readonly arrivals: Arrivals;
  /** Time under load before counting starts. */
  readonly leadInMs: number;
  readonly measureMs: number;
};

export type BatchingResult = {
  /** Calls that were answered with 200 inside the window. */
  readonly calls: number;
  readonly callsPerSecond: number;
  /** Of calls that were due inside the window and answered with 200: from when they were due. */
  readonly p50Us: number;
  readonly p95Us: number;
  readonly p99Us: number;
  /** HTTP status → answers, those outside the window included. */
  readonly statuses: Readonly<Record<number, number>>;
  /** Problem → how often. */
  readonly errors: Readonly<Record<string, number>>;
};

/**
 * When calls are due, in milliseconds from the start: at random, as callers come who know nothing of each other. The same
 * for each subject.
 */
export function* dueTimes(perSecond: number): Generator<number> {
  let state = SEED;
  for (let dueMs = 0; ;) {
    // mulberry32
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    const random = ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    dueMs += (-Math.log(1 - random) * 1000) / perSecond;
    yield dueMs;
  }
}

const SEED = 39;
