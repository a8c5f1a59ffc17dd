import { queryOptions } from "@tanstack/react-query";
import { ONE_DELIVERY } from "../../src/shapes/deliveries.ts";
import { ONE_RUN, RUN, RUNS } from "../../src/shapes/runs.ts";
import type { RunPage, RunRecord } from "../../src/shapes/runs.ts";
import { ApiError, readAnswer, requireGood } from "./answer.ts";
import { appPath, idOf } from "./apps.ts";
import { ask, askApps } from "./http.ts";
import { queryOf } from "./run-search.ts";
import type { RunSearch } from "./run-search.ts";

/** A run, and of one that is shown by itself its build. */
export type Run = RunRecord & { readonly buildId?: string | null };

/** What finds a run. */
export type RunIds = { readonly projectId: string; readonly appName: string; readonly runId: string };

/** The status of a handshake that a server agreed to. */
const SWITCHED = 101;

const LIVE_MS = 5_000;
const MOVING_MS = 2_000;
/** A run that runs is looked at as often as somebody could see a difference. */
const WATCHED_MS = 1_000;

/** Whether nothing of it will change any more. */
export function isOver({ status }: Pick<RunRecord, "status">): boolean {
  return status !== "queued" && status !== "running";
}

/** Whether it was a request to a server, whose path stands for a function's name. */
export function isOfServer({ functionName }: Pick<RunRecord, "functionName">): boolean {
  return functionName.startsWith("/");
}

/** Whether it is a WebSocket that is open or was: of what went over it nothing is stored. */
export function isTalk({ websocket, status, statusCode }: RunRecord): boolean {
  return websocket && (statusCode === SWITCHED || status === "running");
}

/** What was called: a function by its name, a server with its method and path. */
export function calledText(run: RunRecord): string {
  return isOfServer(run) ? `${run.method} ${run.functionName}` : run.functionName;
}

/** A page of runs, of a project's apps or of the one that the search names. */
export async function readRuns(
  projectId: string,
  search: RunSearch,
  page: { readonly pageSize: number; readonly nextToken?: string },
  signal?: AbortSignal,
): Promise<RunPage> {
  const { app } = search;
  const query = { ...queryOf(search, Date.now()), ...page, app_id: app && idOf(projectId, app) };
  return await ask(RUNS, `/v2/projects/${projectId}/runs`, { query, signal });
}

/** The newest runs, asked for again and again. */
export function newestRunsQuery(projectId: string, search: RunSearch, pageSize: number) {
  return queryOptions({
    queryKey: ["runs", projectId, search],
    queryFn: ({ signal }) => readRuns(projectId, search, { pageSize }, signal),
    refetchInterval: ({ state }) => (state.data?.items.every(isOver) === false ? MOVING_MS : LIVE_MS),
    // What was shown of this list an hour ago is of no use.
    gcTime: 60_000,
  });
}

/** One run, watched until it is over and its response is delivered. */
export function runQuery(ids: RunIds) {
  return queryOptions({
    queryKey: ["run", ids.projectId, ids.appName, ids.runId],
    queryFn: async ({ client, queryKey, signal }) => {
      const last = client.getQueryData<RunRecord>(queryKey);
      // One that somebody waits for is not stored before it has ended.
      const isUnstored = last !== undefined && !last.async && !isOver(last);
      return isUnstored ? await findLive(ids, signal) : await findRun(ids, signal);
    },
    refetchInterval: ({ state: { data } }) =>
      data && (!isOver(data) || data.webhookStatus === "pending") ? WATCHED_MS : false,
  });
}

/** A run as it is stored; while it is under way the service itself knows more. */
async function findRun(ids: RunIds, signal: AbortSignal): Promise<Run> {
  try {
    const path = `${appPath(ids.projectId, ids.appName)}/runs/${ids.runId}`;
    const { item, buildId } = await ask(ONE_RUN, path, { signal });
    return { ...(item.status === "running" ? await findLive(ids, signal) : item), buildId };
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "run_not_found") throw error;
    return await findLive(ids, signal);
  }
}

async function findLive(ids: RunIds, signal: AbortSignal): Promise<RunRecord> {
  return await readAnswer(RUN, await askApps(runPath(ids), { signal }));
}

/** What was tried to deliver the run's response; the delivery has the run's id. */
export function attemptsQuery({ projectId, runId }: RunIds, run: RunRecord | undefined) {
  return queryOptions({
    // Asked for once more when the last one is over.
    queryKey: ["attempts", projectId, runId, run?.webhookStatus],
    queryFn: async ({ signal }) => {
      const path = `/v2/projects/${projectId}/deliveries/${runId}`;
      return (await ask(ONE_DELIVERY, path, { signal })).item.attempts;
    },
    enabled: run !== undefined && run.webhookStatus !== "none" && isOver(run),
    refetchInterval: run?.webhookStatus === "pending" ? MOVING_MS : false,
    placeholderData: (last) => last,
  });
}

export async function cancelRun(ids: RunIds): Promise<void> {
  await requireGood(await askApps(`${runPath(ids)}/cancel`, { method: "POST" }));
}

/** The run's address where apps are called. */
export function runPath({ projectId, appName, runId }: RunIds): string {
  return `/v4/${projectId}/${appName}/runs/${runId}`;
}
