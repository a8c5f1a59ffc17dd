import type { QueueConfig, Rate } from "./app-config.ts";

/**
 * What an app's queue of async runs does: it takes and begins runs (`open`), takes them and begins none (`paused`), or begins
 * them and takes no more (`draining`). Stored by its place in this list.
 */
export const QUEUE_STATES = ["open", "paused", "draining"] as const;
export type QueueState = (typeof QUEUE_STATES)[number];

/**
 * In whose line a run waits, and how many turns that line has compared with others. Runs of one key wait for each other;
 * the keys of an app take turns.
 */
export type Fairness = { readonly key: string; readonly weight: number };

/** Of a service account. */
export const USUAL_WEIGHT = 1;
export const MAX_WEIGHT = 100;

/** Whether the runs of one concurrency key of the app may have to wait for each other. */
export function hasKeyLimits(queue: QueueConfig | undefined): boolean {
  return (
    queue !== undefined && (queue.concurrencyKeyLimit !== null || queue.concurrencyKeyRateLimit !== null)
  );
}

/** How many runs began in each of the last spans of time, the earliest first; a span goes by when it began. */
export type Starts = readonly (readonly [at: number, count: number])[];

/** Into how many spans a period is divided: a start counts for up to one of them longer than the period. */
const SPANS = 50;

/**
 * How many more runs may begin now. In no period, wherever it begins, are there more starts than the rate allows; runs need
 * not be spread over it.
 */
export function roomIn(starts: Starts, rate: Rate, now: number): number {
  const begun = recent(starts, rate, now).reduce((sum, [, count]) => sum + count, 0);
  return Math.max(0, rate.count - begun);
}

/** When the next run may begin. */
export function nextRoomAt(starts: Starts, rate: Rate, now: number): number {
  let room = rate.count;
  const counted = recent(starts, rate, now);
  for (const [at, count] of counted.toReversed()) {
    room -= count;
    if (room <= 0) return endOf(at, rate);
  }
  return now;
}

/** No run has to wait longer for the rate. */
export function longestWait(rate: Rate): number {
  return endOf(0, rate);
}

/** With so many runs that began now. */
export function withStarts(starts: Starts, rate: Rate, now: number, count: number): Starts {
  const counted = recent(starts, rate, now);
  const at = now - (now % spanMs(rate));
  const last = counted.at(-1);
  if (last?.[0] !== at) return [...counted, [at, count]];
  return [...counted.slice(0, -1), [at, last[1] + count]];
}

/** When none of the starts counts any more. */
export function endOfAll(starts: Starts, rate: Rate): number {
  const last = starts.at(-1);
  return last ? endOf(last[0], rate) : 0;
}

/** Those that count. A clock that was ahead holds runs up for no longer than a period. */
function recent(starts: Starts, rate: Rate, now: number): Starts {
  const span = now - (now % spanMs(rate));
  const counted = starts.map(([at, count]) => [Math.min(at, span), count] as const);
  return counted.filter(([at]) => endOf(at, rate) > now);
}

function endOf(at: number, rate: Rate): number {
  return at + spanMs(rate) + rate.periodSeconds * 1000;
}

function spanMs({ periodSeconds }: Rate): number {
  return Math.max(1, Math.ceil((periodSeconds * 1000) / SPANS));
}
