import { queryOptions } from "@tanstack/react-query";
import { APP, APPS, CONFIGURATION } from "../../src/shapes/apps.ts";
import type { AppRecord, Scaling } from "../../src/shapes/apps.ts";
import { ask, tell } from "./http.ts";

export type { AppBrief, AppRecord, ConfigEntry, ConfigValue, Scaling } from "../../src/shapes/apps.ts";

/** An app's name, which its id ends with. */
export function nameOf(projectId: string, appId: string): string {
  return appId.slice(projectId.length + 1);
}

/** An app's id of the management API. */
export function idOf(projectId: string, appName: string): string {
  return `${projectId}-${appName}`;
}

/** Where the management API has an app. */
export function appPath(projectId: string, appName: string): string {
  return `/v2/projects/${projectId}/apps/${encodeURIComponent(idOf(projectId, appName))}`;
}

/** One app, kept fresh while it is looked at. */
export function appQuery(projectId: string, appName: string) {
  return queryOptions({
    queryKey: ["app", projectId, appName],
    queryFn: ({ signal }) => ask(APP, appPath(projectId, appName), { signal }),
    refetchInterval: 5_000,
  });
}

/** A project's apps, kept fresh while they are looked at. */
export function appsQuery(projectId: string) {
  return queryOptions({
    queryKey: ["apps", projectId],
    queryFn: ({ signal }) => ask(APPS, `/v2/projects/${projectId}/apps`, { signal }),
    refetchInterval: 5_000,
  });
}

/** What decides how an app runs; an error `build_not_found` while nothing serves. */
export function configurationQuery(projectId: string, appName: string) {
  return queryOptions({
    queryKey: ["configuration", projectId, appName],
    queryFn: ({ signal }) => ask(CONFIGURATION, `${appPath(projectId, appName)}/configuration`, { signal }),
    refetchInterval: 5_000,
  });
}

/** Takes effect at once, until the next deploy. */
export async function changeScaling(
  projectId: string,
  appName: string,
  body: Partial<Scaling>,
): Promise<AppRecord> {
  return await ask(APP, appPath(projectId, appName), { method: "PATCH", body });
}

/** Has the version of an earlier build serve again; resolves when it does. */
export async function rollBack(projectId: string, appName: string, buildId: string): Promise<AppRecord> {
  return await ask(APP, `${appPath(projectId, appName)}/rollback`, { method: "POST", body: { buildId } });
}

export async function deleteApp(projectId: string, appName: string): Promise<void> {
  await tell(appPath(projectId, appName), { method: "DELETE" });
}
