import type { LineBatch } from "../../model/line-batch.ts";
import { batchRecord, type BatchRecord } from "../../shapes/batches.ts";
import type { Store } from "../../store/store.ts";
import type { QueueStates } from "../queue-states.ts";

/** Of a batch's lines in the queue, how many are looked at to tell how many are running. */
const LOOKED_AT = 20_000;

export type RecordParts = {
  readonly store: Pick<Store, "batchLines">;
  readonly queueStates: Pick<QueueStates, "stateOf">;
};

/** Batches of an app as callers get them, with how many lines of each are running now. */
export async function countedRecords(
  { store, queueStates }: RecordParts,
  batches: readonly LineBatch[],
  app: { readonly projectId: string; readonly name: string },
  now: number,
): Promise<BatchRecord[]> {
  const busy = batches.filter(({ completedAt, fed, ended }) => completedAt === null && fed > ended);
  const queries = busy.map(({ number, appNumber }) => ({ number, appNumber, now, limit: LOOKED_AT }));
  const counts =
    queries.length > 0 ? await store.batchLines.runningCounts(queries) : new Map<number, number>();
  return batches.map((batch) => {
    const running = counts.get(batch.number) ?? 0;
    return batchRecord(batch, app, { running, queue: queueStates.stateOf(batch.appNumber) }, now);
  });
}

/** The same of one batch. */
export async function countedRecord(
  parts: RecordParts,
  batch: LineBatch,
  app: { readonly projectId: string; readonly name: string },
  now: number,
): Promise<BatchRecord> {
  const [record] = await countedRecords(parts, [batch], app, now);
  return record!;
}
