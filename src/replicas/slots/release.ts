import type { BatchReason } from "../../model/run.ts";

/** A group of calls that may share one execution, while a slot is free for it. Times are milliseconds. */
export type WaitingGroup = {
  readonly calls: number;
  /** Their sizes together. */
  readonly size: number;
  /** No further call may join it. */
  readonly isFull: boolean;
  /** Since the oldest call came. */
  readonly oldestMs: number;
  /** Since the latest came, or the slot became free if that was later. */
  readonly lullMs: number;
  /** Since it could have left: the slot is free, and the oldest call is there. */
  readonly freeMs: number;
  /** How long the slot had been free when the oldest call came; 0 if the call was first. */
  readonly restMs: number;
  /** Nothing new will come. */
  readonly isDraining: boolean;
  /** How many calls wait in all, and for how many slots of replicas that are ready. */
  readonly inAll: number;
  readonly slots: number;
};

/** What the app and its operator ask for. */
export type ReleaseRules = {
  readonly maxWaitMs: number;
  readonly targetMs: number | null;
  /** An execution that takes longer is stopped. */
  readonly limitMs: number;
};

/** What was seen of earlier calls. */
export type Learned = {
  /** An execution takes `fixedMs + perSizeMs * size`; null before the first. */
  readonly duration: { readonly fixedMs: number; readonly perSizeMs: number } | null;
  /** Between the calls of callers that were just answered; null if they do not ask again at once. */
  readonly burstGapMs: number | null;
  /** Calls that are likely to come because callers that had an answer lately ask again. */
  readonly expected: number;
};

/** The oldest calls leave, up to that size together. */
export type Leaving = { readonly leaves: true; readonly size: number; readonly reason: BatchReason };

/** Leave, or wait for others, for so long at most. */
export type Release = Leaving | { readonly leaves: false; readonly waitMs: number };

/** When so many gaps have passed without a call, no more are coming. */
const LULL_GAPS = 4;
/** Timers are no finer. */
const LEAST_LULL_MS = 1;
/** An execution must end in time even if it takes twice as long as expected. */
const MARGIN = 2;

/**
 * Whether a group leaves now. A free slot is not held back, with one exception: callers whose calls were just answered ask
 * again within moments. One execution for all of them takes its fixed time once, and the time until all are there. If the
 * first ones leave at once, the others gather meanwhile, but the fixed time is spent twice. So the wait is worth it
 * if all are there within less than that.
 */
export function release(waiting: WaitingGroup, rules: ReleaseRules, learned: Learned): Release {
  const { maxWaitMs, limitMs } = rules;
  const targetMs = targetInReach(waiting, rules, learned);
  const leftMs = targetMs - waiting.oldestMs;
  const mostSize = Math.min(sizeIn(leftMs, learned), sizeIn(limitMs / MARGIN, learned));
  if (waiting.size > mostSize) return { leaves: true, size: mostSize, reason: "deadline" };
  const leave = (reason: BatchReason): Release => ({ leaves: true, size: waiting.size, reason });
  if (waiting.isFull) return leave("full");
  if (waiting.isDraining) return leave("drain");
  const lullMs = lullWorthWaiting(waiting, rules, learned);
  if (lullMs === null) return leave("idle");
  if (waiting.freeMs >= maxWaitMs) return leave("window");
  const slackMs = Math.min(leftMs, limitMs - waiting.oldestMs) - durationOf(waiting.size, learned);
  if (slackMs <= 0) return leave("deadline");
  return {
    leaves: false,
    waitMs: Math.min(maxWaitMs - waiting.freeMs, lullMs - waiting.lullMs, slackMs),
  };
}

/** How long a pause between calls may be for which it is worth to wait; null if waiting is of no use. */
function lullWorthWaiting(
  { calls, restMs, lullMs }: WaitingGroup,
  { maxWaitMs }: ReleaseRules,
  { duration, burstGapMs, expected }: Learned,
): number | null {
  if (duration === null || burstGapMs === null) return null;
  // It finds a slot that was idle: it was not sent by a caller that was just answered.
  if (expected <= 0 || restMs > maxWaitMs) return null;
  if ((calls + expected) * burstGapMs >= duration.fixedMs) return null;
  const longestMs = Math.max(LEAST_LULL_MS, LULL_GAPS * burstGapMs);
  return lullMs < longestMs ? longestMs : null;
}

/**
 * The target, if all waiting calls can be answered within it; otherwise no bound. Small executions spend their fixed time
 * more often: if some calls will be late anyway, fewer are with large ones.
 */
function targetInReach(waiting: WaitingGroup, { targetMs, limitMs }: ReleaseRules, learned: Learned): number {
  if (targetMs === null) return Infinity;
  if (durationOf(waiting.size / waiting.calls, learned) > targetMs - waiting.oldestMs) return Infinity;
  const size = Math.min(sizeIn(targetMs - waiting.oldestMs, learned), sizeIn(limitMs / MARGIN, learned));
  if (size === Infinity) return targetMs;
  const inAll = waiting.inAll * (waiting.size / waiting.calls);
  const rounds = Math.ceil(inAll / (size * waiting.slots));
  return rounds * durationOf(size, learned) > targetMs ? Infinity : targetMs;
}

/** The size that takes so long; without a bound if even a single call takes longer. */
function sizeIn(ms: number, { duration }: Learned): number {
  if (duration === null || duration.perSizeMs <= 0) return Infinity;
  const size = Math.floor((ms - duration.fixedMs) / duration.perSizeMs);
  return size >= 1 ? size : Infinity;
}

function durationOf(size: number, { duration }: Learned): number {
  return duration === null ? 0 : duration.fixedMs + duration.perSizeMs * size;
}
