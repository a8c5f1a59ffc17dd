import { queryOptions } from "@tanstack/react-query";
import { ONE_QUEUE, QUEUE_HISTORY } from "../../src/shapes/queues.ts";
import { appPath } from "./apps.ts";
import { ask, tell } from "./http.ts";

export type { QueueHistoryRecord, QueueRecord } from "../../src/shapes/queues.ts";

/** How a queue can be changed. */
export type QueueChange = "pause" | "resume" | "drain";

/** An app's queue as it is now. */
export function queueQuery(projectId: string, appName: string) {
  return queryOptions({
    queryKey: ["queue", projectId, appName],
    queryFn: async ({ signal }) =>
      (await ask(ONE_QUEUE, `${appPath(projectId, appName)}/queue`, { signal })).item,
    refetchInterval: 2_000,
  });
}

/** Its last hour. */
export function queueHistoryQuery(projectId: string, appName: string) {
  return queryOptions({
    queryKey: ["queue-history", projectId, appName],
    queryFn: ({ signal }) => ask(QUEUE_HISTORY, `${appPath(projectId, appName)}/queue/history`, { signal }),
    refetchInterval: 10_000,
  });
}

/** Pauses, resumes or drains it. */
export async function changeQueue(projectId: string, appName: string, change: QueueChange): Promise<void> {
  await tell(`${appPath(projectId, appName)}/queue/${change}`, { method: "POST" });
}
