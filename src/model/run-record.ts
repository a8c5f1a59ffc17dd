import { isFileRun } from "./file-run.ts";
import { appId } from "./names.ts";
import type { Run, RunState, WebhookState } from "./run.ts";

/** A run as both planes show it. Field names and shapes are exact: existing clients read them. */
export type RunRecord = {
  readonly id: string;
  readonly projectId: string;
  readonly modelId: string;
  readonly functionName: string;
  readonly method: string;
  readonly async: boolean;
  readonly websocket: boolean;
  readonly status: RunState | "failed";
  readonly statusCode: number | null;
  readonly attempt: number;
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly completedAt: string | null;
  readonly updatedAt: string;
  readonly containerId: string | null;
  readonly containerStartedAt: string | null;
  readonly ip: string | null;
  readonly region: string | null;
  readonly webhookEndpoint: string | null;
  readonly webhookStatus: WebhookState;
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly queueTimeMs: number | null;
  readonly runtimeMs: number | null;
  readonly responseTimeMs: number | null;
  readonly activatorQueueTimeMs: number | null;
  readonly containerQueueTimeMs: number | null;
  readonly totalQueueTimeMs: number | null;
  readonly executionTimeMs: number | null;
  readonly totalResponseTimeMs: number | null;
};

/** The stored run in the form callers get. */
export function runRecord(run: Run, app: { readonly projectId: string; readonly name: string }): RunRecord {
  const { errorCode, errorMessage, queueMs, runMs, responseMs } = run;
  return {
    id: run.id,
    projectId: app.projectId,
    modelId: appId(app.projectId, app.name),
    functionName: run.functionName,
    method: run.method,
    async: run.isAsync,
    websocket: false,
    // Clients of runs of files know another word for it.
    status: run.state === "failure" && isFileRun(run) ? "failed" : run.state,
    statusCode: run.statusCode,
    attempt: run.attempt,
    createdAt: timestamp(run.createdAt),
    startedAt: maybe(run.startedAt, timestamp),
    completedAt: maybe(run.completedAt, timestamp),
    updatedAt: timestamp(run.updatedAt),
    containerId: run.replicaId,
    containerStartedAt: maybe(run.replicaStartedAt, timestamp),
    ip: run.ip,
    region: null,
    webhookEndpoint: run.webhookEndpoint,
    webhookStatus: run.webhookState,
    error: errorCode === null ? null : { code: errorCode, message: errorMessage ?? "" },
    queueTimeMs: queueMs,
    runtimeMs: runMs,
    responseTimeMs: responseMs,
    // A run waits in one queue, the service's own: nothing queues inside a replica.
    activatorQueueTimeMs: maybe(queueMs, Math.round),
    containerQueueTimeMs: maybe(queueMs, () => 0),
    totalQueueTimeMs: maybe(queueMs, Math.round),
    executionTimeMs: maybe(runMs, Math.round),
    totalResponseTimeMs: maybe(responseMs, Math.round),
  };
}

function timestamp(at: number): string {
  return new Date(at).toISOString();
}

function maybe<T>(value: number | null, convert: (value: number) => T): T | null {
  return value === null ? null : convert(value);
}
