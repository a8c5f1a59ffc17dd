import { queryOptions } from "@tanstack/react-query";
import { ask } from "./http.ts";

export type AppStatus = "ready" | "cold" | "pending" | "deploying" | "notready" | "error";

export type AppBrief = {
  readonly id: string;
  readonly status: AppStatus;
  readonly createdAt: string;
  readonly updatedAt: string;
};

/** An app with its settings; numbers are texts. */
export type AppDetail = AppBrief & {
  readonly hardware: string;
  readonly cpu: string;
  readonly memory: string;
  readonly gpuCount: string;
  readonly cooldownPeriodSeconds: string;
  readonly minReplicaCount: string;
  readonly maxReplicaCount: string;
  readonly responseGracePeriodSeconds: string;
  readonly lastBuildStatus: string | null;
  readonly latestBuildId: string | null;
};

/** An app's name, which its id ends with. */
export function nameOf(projectId: string, appId: string): string {
  return appId.slice(projectId.length + 1);
}

/** An app's id of the management API. */
export function idOf(projectId: string, appName: string): string {
  return `${projectId}-${appName}`;
}

/** Where the management API has an app. */
export function placeOf(projectId: string, appName: string): string {
  return `/v2/projects/${projectId}/apps/${encodeURIComponent(idOf(projectId, appName))}`;
}

/** One app, kept fresh while it is looked at. */
export function appQuery(projectId: string, appName: string) {
  return queryOptions({
    queryKey: ["app", projectId, appName],
    queryFn: ({ signal }) => ask<AppDetail>(placeOf(projectId, appName), { signal }),
    refetchInterval: 5_000,
  });
}

/** A project's apps, kept fresh while they are looked at. */
export function appsQuery(projectId: string) {
  return queryOptions({
    queryKey: ["apps", projectId],
    queryFn: ({ signal }) => ask<readonly AppBrief[]>(`/v2/projects/${projectId}/apps`, { signal }),
    refetchInterval: 5_000,
  });
}

/** What can be changed of an app while it serves. */
export type Scaling = {
  readonly minReplicaCount: number;
  readonly maxReplicaCount: number;
  readonly replicaConcurrency: number;
  readonly cooldownPeriodSeconds: number;
  readonly responseGracePeriodSeconds: number;
};

export type ConfigValue =
  | string
  | number
  | boolean
  | null
  | readonly string[]
  | Readonly<Record<string, string>>;

/** A key of an app's configuration, as it is now and as it was deployed. */
export type ConfigEntry = {
  readonly key: string;
  readonly value: ConfigValue;
  readonly deployed: ConfigValue;
  readonly unit: "seconds" | "bytes" | null;
  readonly takes: string;
  readonly meaning: string;
};
export type Configuration = {
  readonly buildId: string;
  readonly version: number;
  readonly deployedAt: string;
  readonly keys: readonly ConfigEntry[];
};

/** What decides how an app runs; an error `build_not_found` while nothing serves. */
export function configurationQuery(projectId: string, appName: string) {
  return queryOptions({
    queryKey: ["configuration", projectId, appName],
    queryFn: ({ signal }) => ask<Configuration>(`${placeOf(projectId, appName)}/configuration`, { signal }),
    refetchInterval: 5_000,
  });
}

/** Takes effect at once, until the next deploy. */
export async function changeScaling(
  projectId: string,
  appName: string,
  body: Partial<Scaling>,
): Promise<AppDetail> {
  return await ask(placeOf(projectId, appName), { method: "PATCH", body });
}

/** Has the version of an earlier build serve again; resolves when it does. */
export async function rollBack(projectId: string, appName: string, buildId: string): Promise<AppDetail> {
  return await ask(`${placeOf(projectId, appName)}/rollback`, { method: "POST", body: { buildId } });
}

export async function deleteApp(projectId: string, appName: string): Promise<void> {
  await ask(placeOf(projectId, appName), { method: "DELETE" });
}
