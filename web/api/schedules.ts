import { infiniteQueryOptions } from "@tanstack/react-query";
import { FILE_RUN } from "../../src/shapes/runs.ts";
import { ONE_SCHEDULE, SCHEDULES } from "../../src/shapes/schedules.ts";
import { appPath } from "./apps.ts";
import { ask, tell } from "./http.ts";

export type { FiringRecord, ScheduleRecord } from "../../src/shapes/schedules.ts";

/** An app's schedules by name, kept fresh while they are looked at. */
export function schedulesQuery(projectId: string, appName: string) {
  return infiniteQueryOptions({
    queryKey: ["schedules", projectId, appName],
    queryFn: ({ pageParam, signal }) =>
      ask(SCHEDULES, `${appPath(projectId, appName)}/schedules`, { query: { nextToken: pageParam }, signal }),
    initialPageParam: "",
    getNextPageParam: ({ nextToken }) => nextToken || null,
    refetchInterval: 5_000,
  });
}

/** Where the management API has a schedule. */
type ScheduleKey = { readonly projectId: string; readonly appName: string; readonly name: string };

function pathOf({ projectId, appName, name }: ScheduleKey): string {
  return `${appPath(projectId, appName)}/schedules/${encodeURIComponent(name)}`;
}

/** Stops a schedule from firing, or lets it fire again. */
export async function pauseSchedule(key: ScheduleKey, paused: boolean): Promise<void> {
  await ask(ONE_SCHEDULE, pathOf(key), { method: "PATCH", body: { paused } });
}

/** Starts a run of a schedule now; gives the run's id. */
export async function runSchedule(key: ScheduleKey): Promise<string> {
  return (await ask(FILE_RUN, `${pathOf(key)}/run`, { method: "POST" })).runId;
}

/** Deletes a schedule that is not part of the app's configuration. */
export async function deleteSchedule(key: ScheduleKey): Promise<void> {
  await tell(pathOf(key), { method: "DELETE" });
}
