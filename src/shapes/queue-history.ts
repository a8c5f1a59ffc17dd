import * as z from "zod/mini";
import { TIMESTAMP } from "./common.ts";

/** The last hour of an app's queue, step by step. */
export const QUEUE_HISTORY = z.object({
  from: TIMESTAMP,
  stepMs: z.int(),
  /** How many runs waited at the end of each step, by head start, and how many began in it. */
  steps: z.array(z.object({ high: z.int(), normal: z.int(), low: z.int(), begun: z.int() })),
});
export type QueueHistoryRecord = z.infer<typeof QUEUE_HISTORY>;
