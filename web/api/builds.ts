import { queryOptions } from "@tanstack/react-query";
import { isFinalBuild } from "../../src/model/build.ts";
import { BUILD_CHANGES, BUILDS } from "../../src/shapes/builds.ts";
import type { BuildRecord } from "../../src/shapes/builds.ts";
import { appPath } from "./apps.ts";
import { ask, tell } from "./http.ts";

export type { ListedBuild as Build } from "../../src/shapes/builds.ts";

/** Whether it goes on. */
export function isUnderWay({ status }: Pick<BuildRecord, "status">): boolean {
  return !isFinalBuild(status);
}

/** The end of its id: the beginning is a time, and alike for builds that came together. */
export function shortId(buildId: string): string {
  return buildId.slice(-8);
}

/** An app's builds, newest first; asked for more often while one is under way. */
export function buildsQuery(projectId: string, appName: string) {
  return queryOptions({
    queryKey: ["builds", projectId, appName],
    queryFn: ({ signal }) => ask(BUILDS, `${appPath(projectId, appName)}/builds`, { signal }),
    refetchInterval: ({ state }) => (state.data?.some(isUnderWay) ? 2_000 : 5_000),
  });
}

/** What a version changes in the one before it, which stays so. */
export function buildChangesQuery(projectId: string, appName: string, buildId: string) {
  return queryOptions({
    queryKey: ["build changes", projectId, appName, buildId],
    queryFn: ({ signal }) =>
      ask(BUILD_CHANGES, `${appPath(projectId, appName)}/builds/${buildId}/changes`, { signal }),
  });
}

/** Ends a build; what serves goes on serving. */
export async function cancelBuild(projectId: string, appName: string, buildId: string): Promise<void> {
  await tell(`${appPath(projectId, appName)}/builds/${buildId}`, { method: "DELETE" });
}
