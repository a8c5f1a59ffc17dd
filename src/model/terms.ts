import { uuidBytes } from "../kit/ids.ts";
import type { Late } from "./outcome.ts";

/** What the caller of an async run may ask of the queue, as it was asked. */
export type Wishes = {
  /** How many seconds the run goes ahead of runs that come with it; a negative number of seconds: after them. */
  readonly priority: number;
  /** How long it waits before it may begin, or until when, in epoch milliseconds. */
  readonly delay: { readonly ms: number } | { readonly until: number } | null;
  /** From the end of the delay: how long it may wait for its start, and how long it may take in all. */
  readonly ttlMs: number | null;
  readonly timeoutMs: number | null;
  readonly maxAttempts: number | null;
  readonly tags: readonly string[];
  /** Runs of the app with the same key share what `[queue]` allows for one key. */
  readonly concurrencyKey: string | null;
  /** Which of the app's lines it waits in, instead of that of its caller. */
  readonly fairnessKey: string | null;
};

/** The same for a run that was accepted; times are epoch milliseconds. Stored as JSON, so members are only ever added. */
export type Terms = Pick<Wishes, "priority" | "maxAttempts" | "tags" | "concurrencyKey" | "fairnessKey"> & {
  /** When it may begin first; null: as soon as it was accepted. */
  readonly notBefore: number | null;
  /** It ends as `expired` if it has not begun by then, and as `timed_out` if it has not ended. */
  readonly startBy: number | null;
  readonly endBy: number | null;
};

export const MAX_TERM_MS = 30 * 24 * 3600 * 1000;
/** A UUIDv7 begins with its time; the byte after it is from 0x70 to 0x7f. */
const TIME_BYTES = 6;
const BEFORE_IDS = 0x00;
const AFTER_IDS = 0xff;
/** The head starts that have a name. */
export const PRIORITIES = { low: -600, normal: 0, high: 600 } as const;
export const MAX_HEAD_START = 3600;
export const MAX_TAGS = 5;
export const MAX_TAG_CHARS = 128;
/** Of a concurrency or fairness key. */
export const MAX_QUEUE_KEY_CHARS = 128;

/** The terms of a run that is accepted at that time. */
export function termsOf(
  { priority, delay, ttlMs, timeoutMs, maxAttempts, tags, concurrencyKey, fairnessKey }: Wishes,
  now: number,
): Terms {
  const due = delay && ("until" in delay ? delay.until : now + delay.ms);
  const notBefore = due !== null && due > now ? due : null;
  const from = notBefore ?? now;
  const startBy = ttlMs === null ? null : from + ttlMs;
  const endBy = timeoutMs === null ? null : from + timeoutMs;
  return { priority, notBefore, startBy, endBy, maxAttempts, tags, concurrencyKey, fairnessKey };
}

type QueueKeys = Pick<Terms, "concurrencyKey" | "fairnessKey">;

/** Terms from their JSON, which may be from before some of the members. */
export function parseTerms(json: string): Terms {
  const terms = JSON.parse(json) as Omit<Terms, keyof QueueKeys> & Partial<QueueKeys>;
  return { ...terms, concurrencyKey: terms.concurrencyKey ?? null, fairnessKey: terms.fairnessKey ?? null };
}

/**
 * The line in which a run waits: lines of an app take turns. It is that of its account, unless its call named another; runs
 * without either share one.
 */
export function lineOf({
  terms,
  accountId,
}: {
  readonly terms: Terms | null;
  readonly accountId: string | null;
}): string {
  return terms?.fairnessKey ?? accountId ?? "";
}

/** Whether an attempt of the run has begun before this one. */
export function hasRun(run: { readonly attempt: number; readonly interruptions: number }): boolean {
  return run.attempt > 1 || run.interruptions > 0;
}

/** How a run ends that is late by its terms; null for one that is not. */
export function lateness(terms: Terms | null, hasBegun: boolean, now: number): Late["code"] | null {
  if (terms === null) return null;
  const { startBy, endBy } = terms;
  if (!hasBegun && startBy !== null && startBy <= now) return "expired";
  return endBy !== null && endBy <= now ? "timed_out" : null;
}

/**
 * A run's place among the queued runs of its app, where that is not its id: the time at which it would have come, had it come
 * when its delay ends, or earlier by its head start. So waiting runs pass later ones of a higher priority in the end. Runs
 * with the same time are in the order of their ids, also beside those without a place.
 */
export function placeOf({ id, terms }: { readonly id: string; readonly terms: Terms | null }): Buffer | null {
  if (terms === null || (terms.priority === 0 && terms.notBefore === null)) return null;
  const bytes = uuidBytes(id);
  // Not the time of acceptance: ids may be some milliseconds ahead of it, or behind.
  const cameAt = bytes.readUIntBE(0, TIME_BYTES);
  const at = Math.max(0, Math.round((terms.notBefore ?? cameAt) - terms.priority * 1000));
  if (at === cameAt) return null;
  const time = Buffer.alloc(TIME_BYTES + 1, at < cameAt ? AFTER_IDS : BEFORE_IDS);
  time.writeUIntBE(at, 0, TIME_BYTES);
  return Buffer.concat([time, bytes]);
}
