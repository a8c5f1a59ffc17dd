import type { KeptEnd } from "../../host/run-kept.ts";
import { AppError } from "../../model/errors.ts";
import type { ErrorCode } from "../../model/errors.ts";
import { fileRunName } from "../../model/file-run.ts";
import type { Run } from "../../model/run.ts";

/** Such a run belongs to no version. */
const NO_VERSION = "00000000-0000-0000-0000-000000000000";
const MAX_MESSAGE_CHARS = 1_000;

/** What is asked for. */
export type FileRunRequest = {
  /** Below the folder that is sent. */
  readonly fileName: string;
  readonly functionName: string | null;
  readonly ip: string;
};

/** The record of a run of a file that is about to start. */
export function startedRun(
  { fileName, functionName, ip }: FileRunRequest,
  {
    id,
    appNumber,
    createdAt,
    startedAt,
  }: Pick<Run, "id" | "appNumber" | "createdAt"> & { startedAt: number },
): Run {
  return {
    id,
    appNumber,
    versionId: NO_VERSION,
    functionName: fileRunName(fileName, functionName),
    method: "POST",
    // Nobody runs it again when the service ends under it.
    isAsync: false,
    state: "running",
    statusCode: null,
    attempt: 1,
    interruptions: 0,
    createdAt,
    startedAt,
    completedAt: null,
    updatedAt: startedAt,
    replicaId: id,
    replicaStartedAt: startedAt,
    ip,
    webhookEndpoint: null,
    webhookState: "none",
    errorCode: null,
    errorMessage: null,
    errorTraceback: null,
    queueMs: Math.max(0, startedAt - createdAt),
    runMs: null,
    responseMs: null,
  };
}

/** How a file's run ended: by itself, or from outside. */
export type FileRunEnd = KeptEnd | "timed_out" | "cancelled" | "interrupted";

/** The record with its end. */
export function endedRun(run: Run, end: FileRunEnd, now: number): Run {
  const completed = {
    ...run,
    completedAt: now,
    updatedAt: now,
    runMs: Math.max(0, now - (run.startedAt ?? now)),
    responseMs: Math.max(0, now - run.createdAt),
  };
  if (typeof end === "string") return { ...completed, ...failure(end) };
  const { code, detail, lastWords } = end;
  if (code === 0) return { ...completed, state: "success", statusCode: 200 };
  // More than a program can exit with: that is how a keeper tells of a signal.
  if (code > 128) return { ...completed, ...failure("app_crashed", detail) };
  return { ...completed, ...failure("app_error", lastWords === "" ? detail : lastWords) };
}

/** The end of a run that a service which is gone has left. */
export function abandonedRun(run: Run, now: number): Run {
  const ends = { completedAt: now, updatedAt: now, responseMs: Math.max(0, now - run.createdAt) };
  return { ...run, ...ends, ...failure("interrupted") };
}

function failure(
  code: ErrorCode,
  message?: string,
): Pick<Run, "state" | "statusCode" | "errorCode" | "errorMessage"> {
  const error = new AppError(code, message === undefined ? {} : { message });
  return {
    state: "failure",
    statusCode: error.status,
    errorCode: code,
    errorMessage: error.message.slice(0, MAX_MESSAGE_CHARS),
  };
}
