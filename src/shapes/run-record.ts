import { isFileRun } from "../model/run.ts";
import { appId } from "../model/names.ts";
import type { Run } from "../model/run.ts";
import type { RunRecord } from "./runs.ts";
import { timestamp } from "./timestamp.ts";

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
    websocket: run.isWebSocket,
    // Clients of file runs know another word for it.
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
    requestBytes: run.requestBytes,
    responseBytes: run.responseBytes,
    ...(run.user !== null && { accountId: run.accountId, user: run.user }),
  };
}

function maybe<T>(value: number | null, convert: (value: number) => T): T | null {
  return value === null ? null : convert(value);
}
