const SECOND_MS = 1_000;
const HOUR_MS = 3600 * SECOND_MS;

/** The wait before each attempt, counted from the end of the one before it. */
export const GAPS_MS: readonly number[] = [
  ...[0, 5, 30, 5 * 60, 30 * 60].map((seconds) => seconds * SECOND_MS),
  ...[2, 5, 10, 24].map((hours) => hours * HOUR_MS),
];

const JITTER = 0.1;
const MAX_RETRY_AFTER_MS = 24 * HOUR_MS;

/** Longer than any planned wait; a later time was written by a clock that was wrong. */
export const HORIZON_MS = 27 * HOUR_MS;

/** `attempts` were made so far; `retryAfterMs` is the target's request, null if none. */
type Wait = {
  readonly attempts: number;
  readonly retryAfterMs: number | null;
  readonly gapsMs: readonly number[];
  readonly random?: () => number;
};

/**
 * The wait before the next attempt; null after the last one. A target may ask for a longer wait than the schedule has,
 * not for a shorter one. A delivery that is sent again after its last attempt starts over.
 */
export function nextWaitMs({ attempts, retryAfterMs, gapsMs, random = Math.random }: Wait): number | null {
  const step = attempts % gapsMs.length;
  if (step === 0) return null;
  const gapMs = Math.min(gapsMs[step] ?? 0, MAX_RETRY_AFTER_MS) * (1 - JITTER + 2 * JITTER * random());
  // The target named a time before which it wants nothing: the spread is to the later side only.
  const askedMs = Math.min(retryAfterMs ?? 0, MAX_RETRY_AFTER_MS) * (1 + JITTER * random());
  return Math.round(Math.max(gapMs, askedMs));
}

/** Reads `Retry-After`, seconds or a date; null when there is none or it makes no sense. */
export function parseRetryAfter(text: string | undefined, now: number): number | null {
  const value = text?.trim() ?? "";
  if (/^\d+$/.test(value)) return Math.min(Number(value) * SECOND_MS, MAX_RETRY_AFTER_MS);
  // A date of HTTP always names its day: without that, `Date.parse` makes years of any number.
  if (!/^[A-Z][a-z]{2}/.test(value)) return null;
  const at = Date.parse(value);
  return Number.isNaN(at) ? null : Math.max(0, Math.min(at - now, MAX_RETRY_AFTER_MS));
}
