import { queryOptions } from "@tanstack/react-query";
import { CONTAINERS } from "../../src/shapes/apps.ts";
import { APP_GPUS } from "../../src/shapes/hardware.ts";
import { idOf } from "./apps.ts";
import { HISTORY_REFRESH_MS } from "./gpu-history.ts";
import { ask } from "./http.ts";
import { readLog } from "./logs.ts";

/** One replica of an app, which the API calls a container. */
export type { ContainerRecord as Replica } from "../../src/shapes/apps.ts";

/** An app's replicas, kept fresh while they are looked at. */
export function replicasQuery(projectId: string, appName: string) {
  return queryOptions({
    queryKey: ["replicas", projectId, appName],
    queryFn: ({ signal }) =>
      ask(CONTAINERS, `/v2/projects/${projectId}/apps/${idOf(projectId, appName)}/containers`, { signal }),
    refetchInterval: 5_000,
  });
}

/** The GPUs that an app's replicas had in the last hour, kept fresh while they are looked at. */
export function appGpusQuery(projectId: string, appName: string) {
  return queryOptions({
    queryKey: ["app-gpus", projectId, appName],
    queryFn: ({ signal }) =>
      ask(APP_GPUS, `/v2/projects/${projectId}/apps/${idOf(projectId, appName)}/gpus`, { signal }),
    refetchInterval: HISTORY_REFRESH_MS,
  });
}

/** A replica that was ended because another app needed its GPU. */
export type Eviction = { readonly timestamp: string; readonly text: string };

const EVICTED = "[millrace] this replica was evicted for ";
const MAX_EVICTIONS = 5;

/** The last evictions of an app's replicas, newest first, as the newest part of its log tells of them. */
export function evictionsQuery(projectId: string, appName: string) {
  return queryOptions({
    queryKey: ["evictions", projectId, appName],
    queryFn: async ({ signal }): Promise<Eviction[]> => {
      const query = { search: EVICTED, stream: "stderr", pageSize: MAX_EVICTIONS } as const;
      const { lines } = await readLog({ projectId, appName }, query, signal);
      return lines.toReversed().flatMap(({ timestamp, text }) => {
        const forWhom = text.startsWith(EVICTED) ? text.slice(EVICTED.length).split(",")[0] : undefined;
        return forWhom === undefined ? [] : [{ timestamp, text: `evicted for ${forWhom}` }];
      });
    },
    refetchInterval: 30_000,
  });
}
