import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { BATCHES, ONE_BATCH } from "../../src/shapes/batches.ts";
import { readAnswer, requireGood } from "./answer.ts";
import { appPath } from "./apps.ts";
import { ask, askApps } from "./http.ts";
import type { BatchRecord } from "../../src/shapes/batches.ts";

export type { BatchRecord } from "../../src/shapes/batches.ts";

/** What finds a batch. */
export type BatchIds = { readonly projectId: string; readonly appName: string; readonly batchId: string };

const LIST_MS = 5_000;
const WATCHED_MS = 1_000;

/** Whether nothing of it will change any more. */
export function isBatchOver({ completedAt }: BatchRecord): boolean {
  return completedAt !== null;
}

/** Lines that have ended. */
export function endedLines({ succeeded, failed, cancelled }: BatchRecord): number {
  return succeeded + failed + cancelled;
}

/** An app's batches, newest first, kept fresh while they are looked at. */
export function batchesQuery(projectId: string, appName: string) {
  return infiniteQueryOptions({
    queryKey: ["batches", projectId, appName],
    queryFn: ({ pageParam, signal }) =>
      ask(BATCHES, `${appPath(projectId, appName)}/batches`, { query: { nextToken: pageParam }, signal }),
    initialPageParam: "",
    getNextPageParam: ({ nextToken }) => nextToken || null,
    refetchInterval: LIST_MS,
  });
}

/** A batch, asked for again and again until it has ended. */
export function batchQuery({ projectId, appName, batchId }: BatchIds) {
  return queryOptions({
    queryKey: ["batch", projectId, appName, batchId],
    queryFn: async ({ signal }) =>
      (await ask(ONE_BATCH, `${appPath(projectId, appName)}/batches/${batchId}`, { signal })).item,
    refetchInterval: ({ state: { data } }) => (data && isBatchOver(data) ? false : WATCHED_MS),
  });
}

/** Cancels all lines that have not ended. */
export async function cancelBatch(ids: BatchIds): Promise<void> {
  await requireGood(await askApps(`${batchPath(ids)}/cancel`, { method: "POST" }));
}

/** Makes a new batch of the lines that failed; returns its id. */
export async function retryBatch(ids: BatchIds): Promise<string> {
  const response = await askApps(`${batchPath(ids)}/retry`, { method: "POST" });
  return (await readAnswer(ONE_BATCH.shape.item, response)).id;
}

/** The results there are by now, as JSON Lines. */
export async function batchResults(ids: BatchIds): Promise<Blob> {
  const response = await askApps(`${batchPath(ids)}/results`, {});
  await requireGood(response);
  return await response.blob();
}

/** The batch's address where apps are called. */
function batchPath({ projectId, appName, batchId }: BatchIds): string {
  return `/v4/${projectId}/${appName}/batches/${batchId}`;
}
