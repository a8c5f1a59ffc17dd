import { queryOptions } from "@tanstack/react-query";
import { type BulkAction, fits } from "../../src/model/bulk-job.ts";
import {
  BULK_COUNT,
  BULK_JOBS,
  type BulkCount,
  type BulkJobRecord,
  ONE_BULK_JOB,
} from "../../src/shapes/bulk-jobs.ts";
import { appPath } from "./apps.ts";
import { ask } from "./http.ts";
import { queryOf } from "./run-search.ts";
import type { RunSearch } from "./run-search.ts";

export type { BulkAction } from "../../src/model/bulk-job.ts";
export type { BulkJobRecord } from "../../src/shapes/bulk-jobs.ts";

const WATCHED_MS = 1_000;
const LIVE_MS = 10_000;

type AppIds = { readonly projectId: string; readonly appName: string };

/** The last actions on many runs of an app, watched while one is in progress. */
export function bulkJobsQuery({ projectId, appName }: AppIds) {
  return queryOptions({
    queryKey: ["bulk-jobs", projectId, appName],
    queryFn: async ({ signal }) => (await ask(BULK_JOBS, pathOf({ projectId, appName }), { signal })).items,
    refetchInterval: ({ state }) => (state.data?.some(isGoing) ? WATCHED_MS : LIVE_MS),
  });
}

/** Whether it is still being carried out. */
export function isGoing({ status }: Pick<BulkJobRecord, "status">): boolean {
  return status === "running";
}

/** The actions that fit the runs that a search finds. */
export function fittingActions({ status }: RunSearch): BulkAction[] {
  const all: BulkAction[] = ["retry", "cancel", "delete"];
  return all.filter((action) => status === undefined || fits(action, status));
}

/** How many runs an action on what the search finds would change. */
export function bulkCountQuery(ids: AppIds, action: BulkAction, search: RunSearch) {
  return queryOptions({
    queryKey: ["bulk-count", ids.projectId, ids.appName, action, search],
    queryFn: async ({ signal }): Promise<BulkCount> =>
      await ask(BULK_COUNT, `${pathOf(ids)}/count`, { method: "POST", body: bodyOf(action, search), signal }),
    gcTime: 0,
    staleTime: 0,
  });
}

/** Starts an action on the runs that the search finds. */
export async function startBulkJob(
  ids: AppIds,
  action: BulkAction,
  search: RunSearch,
): Promise<BulkJobRecord> {
  const body = bodyOf(action, search);
  return (await ask(ONE_BULK_JOB, pathOf(ids), { method: "POST", body })).item;
}

/** Stops one; what it has done stays. */
export async function stopBulkJob(ids: AppIds, id: string): Promise<void> {
  await ask(ONE_BULK_JOB, `${pathOf(ids)}/${id}/cancel`, { method: "POST" });
}

function pathOf({ projectId, appName }: AppIds): string {
  return `${appPath(projectId, appName)}/runs/bulk`;
}

/** Without conditions it says that all are meant. */
function bodyOf(action: BulkAction, search: RunSearch) {
  const given = Object.entries(queryOf(search, Date.now())).filter(([, value]) => value);
  return { action, filter: given.length === 0 ? { all: true } : Object.fromEntries(given) };
}
