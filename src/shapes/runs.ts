import * as z from "zod/mini";
import { isServerRun } from "../model/http-request.ts";
import { BATCH_REASONS, isFileRun, RUN_STATES, WAIT_PHASES, WEBHOOK_STATES } from "../model/run.ts";
import type { Progress, QueuePlace, Run, RunDetails, RunAttempt } from "../model/run.ts";
import { appId } from "../model/names.ts";
import type { Terms } from "../model/terms.ts";
import { FAULT, pagesOf, TIMESTAMP, timestamp } from "./common.ts";

/** One attempt of an async run. */
const ATTEMPT = z.object({
  number: z.int(),
  startedAt: z.nullable(TIMESTAMP),
  completedAt: z.nullable(TIMESTAMP),
  containerId: z.nullable(z.string()),
  runtimeMs: z.nullable(z.number()),
  error: z.nullable(FAULT),
});

/** What a run last said of how far it is. */
const PROGRESS = z.object({
  fraction: z.nullable(z.number()),
  message: z.nullable(z.string()),
  at: TIMESTAMP,
});
export type ProgressRecord = z.infer<typeof PROGRESS>;

/** Where a run stands that waits, and what it waits for. */
const PLACE = z.object({
  position: z.int(),
  expectedStartAt: z.nullable(TIMESTAMP),
  phase: z.enum(WAIT_PHASES),
});
export type PlaceRecord = z.infer<typeof PLACE>;

/** That a run made a checkpoint: with how many chunks, and in which attempt. */
const CHECKPOINT = z.object({ at: TIMESTAMP, sent: z.int(), attempt: z.int() });

/** A run as both planes show it. Existing clients read it: names and shapes must not change. */
export const RUN = z.object({
  id: z.uuid(),
  projectId: z.string(),
  modelId: z.string(),
  functionName: z.string(),
  method: z.string(),
  async: z.boolean(),
  websocket: z.boolean(),
  status: z.enum([...RUN_STATES, "failed"]),
  statusCode: z.nullable(z.int()),
  attempt: z.int(),
  createdAt: TIMESTAMP,
  startedAt: z.nullable(TIMESTAMP),
  completedAt: z.nullable(TIMESTAMP),
  updatedAt: TIMESTAMP,
  containerId: z.nullable(z.string()),
  containerStartedAt: z.nullable(TIMESTAMP),
  ip: z.nullable(z.string()),
  region: z.nullable(z.string()),
  webhookEndpoint: z.nullable(z.string()),
  webhookStatus: z.enum(WEBHOOK_STATES),
  error: z.nullable(FAULT),
  queueTimeMs: z.nullable(z.number()),
  runtimeMs: z.nullable(z.number()),
  responseTimeMs: z.nullable(z.number()),
  activatorQueueTimeMs: z.nullable(z.int()),
  containerQueueTimeMs: z.nullable(z.int()),
  totalQueueTimeMs: z.nullable(z.int()),
  executionTimeMs: z.nullable(z.int()),
  totalResponseTimeMs: z.nullable(z.int()),
  requestBytes: z.nullable(z.int()),
  responseBytes: z.nullable(z.int()),
  /** Only for a run that left in a batch: how many calls left together, and why then. */
  batchSize: z.optional(z.int()),
  batchReason: z.optional(z.enum(BATCH_REASONS)),
  /** Only for a run on a replica with GPUs: its time inside the function, times the GPUs. */
  gpuTimeMs: z.optional(z.number()),
  /** Only for a run whose answer says what a model did. */
  inputTokens: z.optional(z.int()),
  outputTokens: z.optional(z.int()),
  /** Only for a run that waits for its time: when it may begin. */
  dueAt: z.optional(TIMESTAMP),
  /** Only what its caller asked of the queue: seconds of head start, labels, attempts, and until when it must begin and end. */
  priority: z.optional(z.number()),
  tags: z.optional(z.array(z.string())),
  maxAttempts: z.optional(z.int()),
  concurrencyKey: z.optional(z.string()),
  /** The line in which it waits, if that is not its account's. */
  fairnessKey: z.optional(z.string()),
  startBy: z.optional(TIMESTAMP),
  endBy: z.optional(TIMESTAMP),
  /** Only for a run that was tried again, where it is read by itself: all attempts, the first one first. */
  attempts: z.optional(z.array(ATTEMPT)),
  /** Only for a run that waits for its turn, where it is read by itself: how many it is from the front, from 1. */
  position: z.optional(z.int()),
  /** The same, if enough is known of how fast the runs before it begin: when it will begin. */
  expectedStartAt: z.optional(TIMESTAMP),
  /** Only for a run that a schedule started, where it is read by itself: its name, and the time that it stands for. */
  schedule: z.optional(z.object({ name: z.string(), time: TIMESTAMP })),
  /** Only for a run that has reported its progress, where it is read by itself. */
  progress: z.optional(PROGRESS),
  /** The same for a run that has made a checkpoint. */
  checkpoint: z.optional(CHECKPOINT),
  /** Only for a run that belongs to a trace: its id. */
  traceId: z.optional(z.string()),
  /** Only for an end user's run. */
  accountId: z.optional(z.nullable(z.string())),
  user: z.optional(z.nullable(z.string())),
});
export type RunRecord = z.infer<typeof RUN>;

/** A page of runs, newest first. */
export const RUNS = z.extend(pagesOf(RUN), {
  /** Unless this is the last page: all that match and were accepted since then are in this page and those before it. */
  completeSince: z.optional(TIMESTAMP),
});
export type RunPage = z.infer<typeof RUNS>;
/** With the build of the version that it runs on; null for a run of a file. */
export const ONE_RUN = z.object({ item: RUN, buildId: z.nullable(z.uuid()) });

/** An async run that was accepted. */
export const ACCEPTED_RUN = z.object({ run_id: z.uuid() });
export const FILE_RUN = z.object({ runId: z.uuid() });

/** The packages for file runs, ready or being installed. */
export const BASE_IMAGE = z.object({ status: z.enum(["ready", "building"]), digest: z.string() });

/** A run's progress as callers get it. */
export function progressRecord({ fraction, message, at }: Progress): ProgressRecord {
  return { fraction, message, at: timestamp(at) };
}

/** Where a waiting run stands, as its callers and readers get it. */
export function placeRecord({ position, expectedStartAt, phase }: QueuePlace): PlaceRecord {
  return { position, expectedStartAt: maybe(expectedStartAt, timestamp), phase };
}

/** The build of a run, which is its version's; null for a run of a file. */
export function buildOf(run: Run): string | null {
  return isFileRun(run) && !isServerRun(run) ? null : run.versionId;
}

/** A stored run as callers get it; in lists without details. */
export function runRecord(
  run: Run,
  app: { readonly projectId: string; readonly name: string },
  details: Partial<RunDetails> = {},
): RunRecord {
  const { failed = [], progress, checkpoint, schedule, place } = details;
  const { errorCode, errorMessage, queueMs, runMs, responseMs } = run;
  return {
    id: run.id,
    projectId: app.projectId,
    modelId: appId(app.projectId, app.name),
    functionName: run.functionName,
    method: run.method,
    async: run.isAsync,
    websocket: run.isWebSocket,
    // Clients of file runs expect this word.
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
    // A run waits only in the service's queue, never inside a replica.
    activatorQueueTimeMs: maybe(queueMs, Math.round),
    containerQueueTimeMs: maybe(queueMs, () => 0),
    totalQueueTimeMs: maybe(queueMs, Math.round),
    executionTimeMs: maybe(runMs, Math.round),
    totalResponseTimeMs: maybe(responseMs, Math.round),
    requestBytes: run.requestBytes,
    responseBytes: run.responseBytes,
    ...(run.batchSize !== null && { batchSize: run.batchSize }),
    ...(run.batchReason !== null && { batchReason: run.batchReason }),
    ...(run.gpuMs !== null && { gpuTimeMs: run.gpuMs }),
    ...(run.inputTokens !== null && { inputTokens: run.inputTokens }),
    ...(run.outputTokens !== null && { outputTokens: run.outputTokens }),
    ...(run.dueAt !== null && { dueAt: timestamp(run.dueAt) }),
    ...(run.terms && askedOf(run.terms)),
    ...(schedule && { schedule: { name: schedule.name, time: timestamp(schedule.at) } }),
    ...(place && { position: place.position }),
    ...(place?.expectedStartAt != null && { expectedStartAt: timestamp(place.expectedStartAt) }),
    ...(failed.length > 0 && { attempts: attemptsOf(run, failed) }),
    ...(progress && { progress: progressRecord(progress) }),
    ...(checkpoint && {
      checkpoint: { at: timestamp(checkpoint.at), sent: checkpoint.sent, attempt: checkpoint.attempt },
    }),
    ...(run.trace && { traceId: run.trace.traceId }),
    ...(run.user !== null && { accountId: run.accountId, user: run.user }),
  };
}

function askedOf({ priority, tags, maxAttempts, concurrencyKey, fairnessKey, startBy, endBy }: Terms) {
  return {
    ...(priority !== 0 && { priority }),
    ...(tags.length > 0 && { tags: [...tags] }),
    ...(maxAttempts !== null && { maxAttempts }),
    ...(concurrencyKey !== null && { concurrencyKey }),
    ...(fairnessKey !== null && { fairnessKey }),
    ...(startBy !== null && { startBy: timestamp(startBy) }),
    ...(endBy !== null && { endBy: timestamp(endBy) }),
  };
}

/** The earlier ones, and the one that has begun last. */
function attemptsOf(run: Run, failed: readonly RunAttempt[]): z.infer<typeof ATTEMPT>[] {
  const attempts = failed.map(({ errorCode: code, errorMessage: message, ...attempt }) => ({
    ...timesOf(attempt.number, attempt.startedAt, attempt.endedAt, attempt),
    error: { code, message },
  }));
  if (run.startedAt === null) return attempts;
  const { errorCode, errorMessage } = run;
  const error = errorCode === null ? null : { code: errorCode, message: errorMessage ?? "" };
  return [...attempts, { ...timesOf(run.attempt, run.startedAt, run.completedAt, run), error }];
}

function timesOf(
  number: number,
  startedAt: number | null,
  endedAt: number | null,
  { replicaId, runMs }: Pick<RunAttempt, "replicaId" | "runMs">,
) {
  return {
    number,
    startedAt: maybe(startedAt, timestamp),
    completedAt: maybe(endedAt, timestamp),
    containerId: replicaId,
    runtimeMs: runMs,
  };
}

function maybe<T>(value: number | null, convert: (value: number) => T): T | null {
  return value === null ? null : convert(value);
}
