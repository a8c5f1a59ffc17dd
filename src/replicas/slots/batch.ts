import type { BatchReason } from "../../model/run.ts";
import type { CallTrace } from "../../model/trace.ts";
import type { Rhythm } from "./learning.ts";

/** Calls that were handed over together. */
export class Batch {
  readonly functionName: string;
  readonly reason: BatchReason;
  /** How many calls it had. */
  readonly size: number;
  /** How many of them its replica holds. */
  held = 0;
  readonly handedAt: number;
  /** What their sizes are together. */
  readonly weight: number;
  readonly rhythm: Rhythm;
  /** It was a single execution, and all its calls returned. */
  isUsual = true;
  isOver = false;
  /** Those of its calls; null if none belongs to one. */
  traces: CallTrace[] | null = null;
  /** Its own span, in the trace of the first of these; null until one of its calls has ended. */
  spanId: string | null = null;

  constructor(
    group: Pick<Batch, "functionName" | "rhythm">,
    calls: number,
    weight: number,
    reason: BatchReason,
    now: number,
  ) {
    this.functionName = group.functionName;
    this.rhythm = group.rhythm;
    this.reason = reason;
    this.size = calls;
    this.weight = weight;
    this.handedAt = now;
  }
}
