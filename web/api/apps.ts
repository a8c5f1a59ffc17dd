import { queryOptions } from "@tanstack/react-query";
import { ask } from "./http.ts";

export type AppStatus = "ready" | "cold" | "pending" | "deploying" | "notready" | "error";

export type AppBrief = {
  readonly id: string;
  readonly status: AppStatus;
  readonly createdAt: string;
  readonly updatedAt: string;
};

/** An app's name, which its id ends with. */
export function nameOf(projectId: string, appId: string): string {
  return appId.slice(projectId.length + 1);
}

/** An app's id of the management API. */
export function idOf(projectId: string, appName: string): string {
  return `${projectId}-${appName}`;
}

/** A project's apps, kept fresh while they are looked at. */
export function appsQuery(projectId: string) {
  return queryOptions({
    queryKey: ["apps", projectId],
    queryFn: ({ signal }) => ask<readonly AppBrief[]>(`/v2/projects/${projectId}/apps`, { signal }),
    refetchInterval: 5_000,
  });
}
