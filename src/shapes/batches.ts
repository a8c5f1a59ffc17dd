import * as z from "zod/mini";
import { appId } from "../model/names.ts";
import { QUEUE_STATES, type QueueState } from "../model/queue-limits.ts";
import { LINE_BATCH_STATES, type LineBatch, rateAfter } from "../model/line-batch.ts";
import { pagesOf, TIMESTAMP, timestamp } from "./common.ts";

/** A batch of lines, as both APIs show it. */
export const BATCH = z.object({
  id: z.uuid(),
  projectId: z.string(),
  /** The app's id. */
  modelId: z.string(),
  functionName: z.string(),
  status: z.enum(LINE_BATCH_STATES),
  /** What the app's queue does: while it is draining, no further line is put into it. Null once the batch has ended. */
  queue: z.nullable(z.enum(QUEUE_STATES)),
  /** Lines that are stored; all there are, once the upload is complete. */
  total: z.number(),
  /** Of these. */
  waiting: z.number(),
  running: z.number(),
  succeeded: z.number(),
  failed: z.number(),
  cancelled: z.number(),
  /** Lines that end in a second, lately; 0 after the end. */
  rate: z.number(),
  bytes: z.number(),
  createdAt: TIMESTAMP,
  uploadedAt: z.nullable(TIMESTAMP),
  completedAt: z.nullable(TIMESTAMP),
  webhookEndpoint: z.nullable(z.string()),
  /** The batch whose failed lines these are. */
  retryOf: z.nullable(z.uuid()),
});
export type BatchRecord = z.infer<typeof BATCH>;

export const BATCHES = pagesOf(BATCH);
export const ONE_BATCH = z.object({ item: BATCH });

/** A batch as callers get it; `running`: how many of its lines have a replica now; `queue`: the state of the app's. */
export function batchRecord(
  batch: LineBatch,
  app: { readonly projectId: string; readonly name: string },
  { running, queue }: { readonly running: number; readonly queue: QueueState },
  now: number,
): BatchRecord {
  const { total, fed, ended, succeeded, failed, state, uploadedAt, completedAt } = batch;
  // Lines of a deleted app end without being counted.
  const left = completedAt === null ? total - ended : 0;
  const busy = Math.min(running, fed - ended, left);
  const rate = uploadedAt === null || completedAt !== null ? null : rateAfter(batch.rate, 0, uploadedAt, now);
  return {
    id: batch.id,
    projectId: app.projectId,
    modelId: appId(app.projectId, app.name),
    functionName: batch.functionName,
    status: state,
    queue: completedAt === null ? queue : null,
    total,
    waiting: left - busy,
    running: busy,
    succeeded,
    failed,
    cancelled: total - left - succeeded - failed,
    rate: Math.round((rate?.perSecond ?? 0) * 100) / 100,
    bytes: batch.totalBytes,
    createdAt: timestamp(batch.createdAt),
    uploadedAt: uploadedAt === null ? null : timestamp(uploadedAt),
    completedAt: completedAt === null ? null : timestamp(completedAt),
    webhookEndpoint: batch.webhookEndpoint,
    retryOf: batch.retryOf,
  };
}
