import type { Run, RunState } from "./run.ts";
import type { Wishes } from "./terms.ts";

/**
 * The states of a batch of lines. `uploading`: lines still come, and none of them runs; `running`: all lines are stored;
 * `cancelling`: lines that have not ended are being cancelled.
 */
export const LINE_BATCH_STATES = ["uploading", "running", "cancelling", "completed", "cancelled"] as const;
export type LineBatchState = (typeof LINE_BATCH_STATES)[number];

/** Every legal change of a stored state. A batch is first stored as uploading. */
export const LINE_BATCH_MOVES = {
  /** All of its lines are stored. */
  start: { from: ["uploading"], to: "running" },
  /** Its upload has ended too early, and will not be continued. */
  abandon: { from: ["uploading"], to: "cancelled" },
  cancel: { from: ["running"], to: "cancelling" },
  /** Every line has ended. */
  complete: { from: ["running"], to: "completed" },
  finishCancel: { from: ["cancelling"], to: "cancelled" },
} as const satisfies Record<
  string,
  { readonly from: readonly LineBatchState[]; readonly to: LineBatchState }
>;
export type LineBatchMove = keyof typeof LINE_BATCH_MOVES;

/** Whether a batch in that state has ended. */
export function hasBatchEnded(state: LineBatchState): boolean {
  return state === "completed" || state === "cancelled";
}

export const MAX_BATCH_LINES = 1_000_000;
export const MAX_BATCH_BYTES = 10_000_000_000;

/** A batch: the function of an app that each of its lines calls, who sent it, and how far it is. */
export type LineBatch = Pick<Run, "appNumber" | "functionName" | "ip" | "accountId" | "user" | "trace"> & {
  readonly number: number;
  /** UUIDv7, text form. */
  readonly id: string;
  readonly keyHash: Uint8Array | null;
  readonly fingerprint: Uint8Array | null;
  /** What the upload asks of the queue for lines that do not say otherwise. */
  readonly wishes: Wishes | null;
  readonly webhookEndpoint: string | null;
  readonly sealedSecret: Uint8Array | null;
  /** The batch whose failed lines these are. */
  readonly retryOf: string | null;
  readonly state: LineBatchState;
  readonly fence: number;
  /** Lines that are stored, and their bytes. */
  readonly total: number;
  readonly totalBytes: number;
  /**
   * Lines whose turn has come; of these, lines that have no run because of a delay, lines that have ended, and how. The rest
   * were cancelled.
   */
  readonly fed: number;
  readonly delayed: number;
  readonly ended: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly rate: Rate;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly uploadedAt: number | null;
  readonly completedAt: number | null;
};

/** A line that has ended. */
export type EndedLine = {
  /** Its index, from 0. */
  readonly line: number;
  /** The caller's own id for it, as JSON. */
  readonly label: string | null;
  readonly runId: string | null;
  /** Its place among the lines that have ended, from 1. */
  readonly place: number;
  readonly state: RunState;
  /** Of a line without a run. */
  readonly errorCode: string | null;
  readonly errorMessage: string | null;
};

/** How many lines end in a second: the mean of the last time, in which older lines count less. */
export type Rate = { readonly perSecond: number; readonly at: number };

/** How long it takes until a change shows. */
const RATE_MS = 30_000;

/** The rate after more lines have ended. Until the batch has run for a while, it is the mean since its start. */
export function rateAfter(rate: Rate, lines: number, startedAt: number, now: number): Rate {
  if (now <= rate.at || now <= startedAt) return rate;
  const weight = (at: number): number => 1 - Math.exp(-Math.max(0, at - startedAt) / RATE_MS);
  const kept = Math.exp(-(now - Math.max(rate.at, startedAt)) / RATE_MS);
  const sum = rate.perSecond * weight(rate.at) * kept + lines / (RATE_MS / 1_000);
  return { perSecond: sum / weight(now), at: now };
}
