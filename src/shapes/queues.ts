import * as z from "zod/mini";
import { QUEUE_STATES } from "../model/queue-limits.ts";
import { TIMESTAMP } from "./common.ts";

const RATE = z.nullable(z.object({ count: z.int(), periodSeconds: z.number() }));

/** The queue of an app's async runs. */
const QUEUE = z.object({
  /** `paused`: none begins; `draining`: none is accepted. */
  state: z.enum(QUEUE_STATES),
  /** When that was last changed. */
  changedAt: z.nullable(TIMESTAMP),
  /** Runs that wait for their turn, without delayed ones. */
  waiting: z.int(),
  byPriority: z.object({ high: z.int(), normal: z.int(), low: z.int() }),
  /** Only so many were counted; more are waiting. */
  hasMore: z.boolean(),
  /** When the first of them was accepted. */
  oldestAt: z.nullable(TIMESTAMP),
  running: z.int(),
  /** Runs that wait until fewer of their concurrency key run. */
  parked: z.int(),
  /** What the app's `[queue]` allows; null without such a table. */
  limits: z.nullable(
    z.object({
      concurrencyLimit: z.nullable(z.int()),
      concurrencyKeyLimit: z.nullable(z.int()),
      rateLimit: RATE,
      concurrencyKeyRateLimit: RATE,
      maxBacklog: z.nullable(z.int()),
    }),
  ),
});
export type QueueRecord = z.infer<typeof QUEUE>;

export const ONE_QUEUE = z.object({ item: QUEUE });

/** The last hour of an app's queue, step by step. */
export const QUEUE_HISTORY = z.object({
  from: TIMESTAMP,
  stepMs: z.int(),
  /** How many runs waited at the end of each step, by head start, and how many began in it. */
  steps: z.array(z.object({ high: z.int(), normal: z.int(), low: z.int(), begun: z.int() })),
});
export type QueueHistoryRecord = z.infer<typeof QUEUE_HISTORY>;
