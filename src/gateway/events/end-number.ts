import type { KnownRun } from "../../runs/lookup.ts";

/**
 * The number of the `end` of a run that may have yielded more chunks than are stored. Larger than the number of any
 * chunk, so nobody who has read a chunk that is lost takes its number for the end's.
 */
export const FAR_END = 999_999_999_999_999;

/** An ended run, as its readers know it. */
export type EndedRun = Pick<KnownRun, "run" | "isKept"> & {
  /** The number of its last chunk. */
  readonly last: number;
};

/** The number of the `end` for a reader that has come as far as `after`. */
export function endNumber(ended: EndedRun, after: number): number {
  return isCounted(ended) && after === ended.last ? after + 1 : FAR_END;
}

/** Whether the number is that of the `end`, and not of a chunk that was lost. */
export function isEndNumber(ended: EndedRun | null, number: number): boolean {
  return number === FAR_END || (ended !== null && isCounted(ended) && number === ended.last + 1);
}

/**
 * Whether the last stored chunk is known to be the last that any reader was given. It is not if the transcript is gone,
 * if the service died during the run, which loses the latest chunks, or if an earlier attempt was read.
 */
function isCounted({ run, isKept }: EndedRun): boolean {
  return isKept && run.errorCode !== "interrupted" && run.attempt === 1 && run.interruptions === 0;
}
