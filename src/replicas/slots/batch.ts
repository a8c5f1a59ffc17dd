import type { BatchReason } from "../../model/run.ts";
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
