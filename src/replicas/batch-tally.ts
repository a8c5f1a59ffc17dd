import { BATCH_REASONS, type BatchReason } from "../model/run.ts";

/** The upper bound of each class of sizes, up to the largest batch. */
export const BATCH_SIZE_BOUNDS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] as const;

/** How many functions are remembered: those of two versions of an app. */
const MAX_FUNCTIONS = 200;

/** The batches of one function. */
export type FunctionBatches = {
  /** How many fell into each class of sizes. */
  readonly sizes: number[];
  readonly byReason: Record<BatchReason, number>;
  batches: number;
  calls: number;
};

/** Counts the batches that left for an app's replicas, since it was made. */
export class BatchTally {
  readonly byFunction = new Map<string, FunctionBatches>();

  /** Notes a batch of so many calls. */
  add(functionName: string, size: number, reason: BatchReason): void {
    const counts = this.byFunction.get(functionName) ?? this.#begin(functionName);
    // The class is the logarithm to the base 2, rounded up.
    const sizeClass = Math.min(32 - Math.clz32(size - 1), BATCH_SIZE_BOUNDS.length - 1);
    counts.sizes[sizeClass]! += 1;
    counts.byReason[reason] += 1;
    counts.batches += 1;
    counts.calls += size;
  }

  #begin(functionName: string): FunctionBatches {
    const [oldest] = this.byFunction.keys();
    // Each deploy may batch other functions.
    if (oldest !== undefined && this.byFunction.size === MAX_FUNCTIONS) this.byFunction.delete(oldest);
    const byReason = Object.fromEntries(BATCH_REASONS.map((reason) => [reason, 0]));
    const counts = {
      sizes: BATCH_SIZE_BOUNDS.map(() => 0),
      byReason: byReason as Record<BatchReason, number>,
      batches: 0,
      calls: 0,
    };
    this.byFunction.set(functionName, counts);
    return counts;
  }
}
