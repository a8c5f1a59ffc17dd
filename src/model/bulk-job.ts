import { isFinal, isFileRun, type Run, type RunState, UNFINISHED } from "./run.ts";

/** What can be done to many runs of an app. */
export const BULK_ACTIONS = ["retry", "cancel", "delete"] as const;
export type BulkAction = (typeof BULK_ACTIONS)[number];

/** Which runs. All members are conditions that a run has to meet; without any, it is every run that the action fits. */
export type BulkFilter = {
  readonly status?: RunState;
  readonly mode?: "sync" | "async";
  readonly functionName?: string;
  readonly tag?: string;
  /** Accepted at that time or later, and before that time, in epoch milliseconds. */
  readonly fromMs?: number;
  readonly toMs?: number;
};

export const BULK_STATES = ["running", "done", "cancelled", "failed"] as const;
export type BulkState = (typeof BULK_STATES)[number];

/** Why a run that the filter found was left as it is. */
export type SkipReason =
  /** Its arguments are no longer stored, or never were. */
  | "input_not_kept"
  /** A file run or a WebSocket, which cannot be repeated. */
  | "not_repeatable"
  | "has_ended"
  | "has_not_ended"
  | "delivery_pending"
  /** Another node executes it, which could not be reached. */
  | "other_node"
  | "gone";

export type BulkJob = {
  /** UUIDv7, text form. */
  readonly id: string;
  readonly appNumber: number;
  readonly action: BulkAction;
  readonly filter: BulkFilter;
  readonly state: BulkState;
  /** How many runs the filter found at the start; null if they were too many to count. */
  readonly total: number | null;
  /** For how many runs it was done. */
  readonly done: number;
  readonly skipped: Readonly<Partial<Record<SkipReason, number>>>;
  /** Why it failed. */
  readonly error: string | null;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly endedAt: number | null;
};

/** The states in which an action finds runs, one after the other; null: whatever the state. */
const FITTING: Readonly<Record<BulkAction, readonly (RunState | null)[]>> = {
  retry: ["failure"],
  // Those that wait first, so that they do not begin meanwhile.
  cancel: ["queued", "running"],
  delete: [null],
};

/** The states to look for. Without a status, failed runs are tried again, and only ended ones are deleted. */
export function statesOf({
  action,
  filter,
}: Pick<BulkJob, "action" | "filter">): readonly (RunState | null)[] {
  return filter.status ? [filter.status] : FITTING[action];
}

/** Whether the action can be done to runs of that state. */
export function fits(action: BulkAction, status: RunState): boolean {
  return action === "cancel" ? UNFINISHED.includes(status) : isFinal(status);
}

/** Why a run is not run again; null if it is. */
export function whyNotAgain(run: Run, hasInput: boolean): SkipReason | null {
  if (!isFinal(run.state)) return "has_not_ended";
  if (isFileRun(run) || run.isWebSocket) return "not_repeatable";
  return hasInput ? null : "input_not_kept";
}

/** Adds counts of runs that were left as they are. */
export function addSkipped(
  before: BulkJob["skipped"],
  reasons: readonly SkipReason[],
): Partial<Record<SkipReason, number>> {
  const skipped = { ...before };
  for (const reason of reasons) skipped[reason] = (skipped[reason] ?? 0) + 1;
  return skipped;
}
