import { queryOptions } from "@tanstack/react-query";
import { CONTAINERS } from "../../src/shapes/apps.ts";
import type { ContainerRecord } from "../../src/shapes/apps.ts";
import { idOf } from "./apps.ts";
import { withReading } from "./gpu-history.ts";
import type { GpuReading } from "./gpu-history.ts";
import { ask } from "./http.ts";
import { readLog } from "./logs.ts";

/** One replica of an app, which the API calls a container. */
export type { ContainerRecord as Replica } from "../../src/shapes/apps.ts";

/** Replicas as they are now, and what was seen of their GPUs since they were first looked at. */
export type SeenReplicas = {
  readonly replicas: readonly ContainerRecord[];
  readonly readings: readonly GpuReading[];
};

/** An app's replicas, kept fresh while they are looked at. */
export function replicasQuery(projectId: string, appName: string) {
  return queryOptions({
    queryKey: ["replicas", projectId, appName],
    queryFn: async ({ client, queryKey, signal }): Promise<SeenReplicas> => {
      const path = `/v2/projects/${projectId}/apps/${idOf(projectId, appName)}/containers`;
      const replicas = await ask(CONTAINERS, path, { signal });
      const past = client.getQueryData<SeenReplicas>(queryKey)?.readings ?? [];
      return { replicas, readings: withReading(past, replicas, Date.now()) };
    },
    refetchInterval: 5_000,
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
