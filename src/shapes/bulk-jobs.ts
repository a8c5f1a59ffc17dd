import * as z from "zod/mini";
import { BULK_ACTIONS, BULK_STATES, type BulkJob } from "../model/bulk-job.ts";
import { RUN_STATES } from "../model/run.ts";
import { TIMESTAMP, timestamp } from "./common.ts";

/** An action on many runs of an app, and how far it is. */
const BULK_JOB = z.object({
  id: z.uuid(),
  action: z.enum(BULK_ACTIONS),
  /** The conditions that a run has to meet. Runs that were accepted after the job are none of it. */
  filter: z.object({
    status: z.optional(z.enum(RUN_STATES)),
    mode: z.optional(z.enum(["sync", "async"])),
    functionName: z.optional(z.string()),
    tag: z.optional(z.string()),
    from: z.optional(TIMESTAMP),
    to: z.optional(TIMESTAMP),
  }),
  status: z.enum(BULK_STATES),
  /** How many runs were found at the start; null: too many to count. */
  total: z.nullable(z.int()),
  done: z.int(),
  /** Runs that were left as they are. */
  skipped: z.int(),
  /** The same by reason. */
  skippedBy: z.record(z.string(), z.int()),
  error: z.nullable(z.string()),
  createdAt: TIMESTAMP,
  updatedAt: TIMESTAMP,
  completedAt: z.nullable(TIMESTAMP),
});
export type BulkJobRecord = z.infer<typeof BULK_JOB>;

/** The last ones of an app, the newest first. */
export const BULK_JOBS = z.object({ items: z.array(BULK_JOB) });
export const ONE_BULK_JOB = z.object({ item: BULK_JOB });
/** How many runs an action would find; `exact`: no more than these. */
export const BULK_COUNT = z.object({ count: z.int(), exact: z.boolean() });
export type BulkCount = z.infer<typeof BULK_COUNT>;

export function bulkJobRecord(job: BulkJob): BulkJobRecord {
  const { fromMs, toMs, ...filter } = job.filter;
  return {
    id: job.id,
    action: job.action,
    filter: {
      ...filter,
      ...(fromMs !== undefined && { from: timestamp(fromMs) }),
      ...(toMs !== undefined && { to: timestamp(toMs) }),
    },
    status: job.state,
    total: job.total,
    done: job.done,
    skipped: Object.values(job.skipped).reduce((sum, count) => sum + count, 0),
    skippedBy: { ...job.skipped },
    error: job.error,
    createdAt: timestamp(job.createdAt),
    updatedAt: timestamp(job.updatedAt),
    completedAt: job.endedAt === null ? null : timestamp(job.endedAt),
  };
}
