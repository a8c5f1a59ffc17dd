import { queryOptions } from "@tanstack/react-query";
import { placeOf } from "./apps.ts";
import { ask } from "./http.ts";

export type BuildStatus =
  | "pending"
  | "building"
  | "initializing"
  | "success"
  | "build_failure"
  | "init_failure"
  | "init_timeout"
  | "cancelled";

/** A deploy on its way, or how it ended. */
export type Build = {
  readonly id: string;
  readonly status: BuildStatus;
  readonly createdAt: string;
  readonly updatedAt: string;
  /** Why it failed. */
  readonly message: string | null;
  /** The number of the version it made; null when there is none to put back. */
  readonly version: number | null;
  readonly isServing: boolean;
};

/** Whether it goes on. */
export function isUnderWay({ status }: Pick<Build, "status">): boolean {
  return status === "pending" || status === "building" || status === "initializing";
}

/** The end of its id: the beginning is a time, and alike for builds that came together. */
export function shortId(buildId: string): string {
  return buildId.slice(-8);
}

/** An app's builds, newest first; asked for more often while one is under way. */
export function buildsQuery(projectId: string, appName: string) {
  return queryOptions({
    queryKey: ["builds", projectId, appName],
    queryFn: ({ signal }) => ask<readonly Build[]>(`${placeOf(projectId, appName)}/builds`, { signal }),
    refetchInterval: ({ state }) => (state.data?.some(isUnderWay) ? 2_000 : 5_000),
  });
}

/** Ends a build; the version before it serves on. */
export async function cancelBuild(projectId: string, appName: string, buildId: string): Promise<void> {
  await ask(`${placeOf(projectId, appName)}/builds/${buildId}`, { method: "DELETE" });
}
