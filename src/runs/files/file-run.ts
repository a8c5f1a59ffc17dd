import type { ProgramEnd } from "../../engines/programs/run-program.ts";
import { AppError } from "../../model/errors.ts";
import type { ErrorCode } from "../../model/errors.ts";
import { fileRunName } from "../../model/file-run.ts";
import { NOT_BEGUN, endRun, makeRun } from "../../model/run.ts";
import type { Run, RunCaller, RunFate } from "../../model/run.ts";

/** Such a run belongs to no version. */
const NO_VERSION = "00000000-0000-0000-0000-000000000000";
const MAX_MESSAGE_CHARS = 1_000;

/** What is asked for. */
export type FileRunRequest = {
  /** Below the folder that is sent. */
  readonly fileName: string;
  readonly functionName: string | null;
  readonly ip: string;
  readonly caller: RunCaller | null;
};

/** The record of a file run that is about to start. */
export function startedRun(
  { fileName, functionName, ip, caller }: FileRunRequest,
  {
    id,
    appNumber,
    createdAt,
    startedAt,
  }: Pick<Run, "id" | "appNumber" | "createdAt"> & { startedAt: number },
): Run {
  const target = { appNumber, versionId: NO_VERSION };
  return makeRun(
    { id, target, functionName: fileRunName(fileName, functionName), ip, caller, webhook: null },
    {
      ...NOT_BEGUN,
      // Nobody runs it again when the service ends under it.
      isAsync: false,
      state: "running",
      createdAt,
      startedAt,
      replicaId: id,
      replicaStartedAt: startedAt,
      queueMs: Math.max(0, startedAt - createdAt),
    },
  );
}

/** How a file's run ended: by itself, or from outside. */
export type FileRunEnd = ProgramEnd | "timed_out" | "cancelled" | "interrupted";

/** The record with its end. */
export function endedRun(run: Run, end: FileRunEnd, now: number): Run {
  return { ...endRun(run, fateOf(end), now), runMs: Math.max(0, now - (run.startedAt ?? now)) };
}

/** The end of a run that a service which is gone has left. */
export function abandonedRun(run: Run, now: number): Run {
  return endRun(run, failure("interrupted"), now);
}

function fateOf(end: FileRunEnd): RunFate {
  if (typeof end === "string") return failure(end);
  const { code, detail, lastWords } = end;
  if (code === 0) return { state: "success", statusCode: 200, errorCode: null, errorMessage: null };
  // More than a program can exit with: that is how a keeper tells of a signal.
  if (code > 128) return failure("app_crashed", detail);
  return failure("app_error", lastWords === "" ? detail : lastWords);
}

function failure(code: ErrorCode, message?: string): RunFate {
  const error = new AppError(code, message === undefined ? {} : { message });
  return {
    state: "failure",
    statusCode: error.status,
    errorCode: code,
    errorMessage: error.message.slice(0, MAX_MESSAGE_CHARS),
  };
}
