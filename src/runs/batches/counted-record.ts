import type { LineBatch } from "../../model/line-batch.ts";
import { batchRecord, type BatchRecord } from "../../shapes/batches.ts";
import type { Store } from "../../store/store.ts";

/** Of a batch's lines in the queue, how many are looked at to tell how many are running. */
const LOOKED_AT = 20_000;

/** A batch as callers get it, with how many of its lines are running now. */
export async function countedRecord(
  { batchLines }: Pick<Store, "batchLines">,
  batch: LineBatch,
  app: { readonly projectId: string; readonly name: string },
  now: number,
): Promise<BatchRecord> {
  const { number, appNumber, fed, ended, completedAt } = batch;
  const isBusy = completedAt === null && fed > ended;
  const running = isBusy ? await batchLines.runningCount({ number, appNumber, now, limit: LOOKED_AT }) : 0;
  return batchRecord(batch, app, running, now);
}
