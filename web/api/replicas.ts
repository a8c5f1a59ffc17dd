import { queryOptions } from "@tanstack/react-query";
import { idOf } from "./apps.ts";
import { ask } from "./http.ts";

/** One replica of an app, which the API calls a container. */
export type Replica = {
  readonly containerId: string;
  readonly containerState: "RUNNING" | "PENDING" | "SUCCEEDED" | "FAILED";
  readonly containerStartTimestamp: string;
  readonly containerRunningTimeMs: number;
  readonly buildId: string;
  readonly isTerminating: boolean;
};

/** An app's replicas, kept fresh while they are looked at. */
export function replicasQuery(projectId: string, appName: string) {
  return queryOptions({
    queryKey: ["replicas", projectId, appName],
    queryFn: ({ signal }) =>
      ask<readonly Replica[]>(`/v2/projects/${projectId}/apps/${idOf(projectId, appName)}/containers`, {
        signal,
      }),
    refetchInterval: 5_000,
  });
}
