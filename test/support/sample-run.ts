import { uuidv7 } from "../../src/kit/ids.ts";
import type { Run } from "../../src/model/run.ts";

const VERSION_ID = uuidv7(Date.now());

/** The record of a sync run that succeeded, with the fields that a test cares about replaced. */
export function sampleRun(fields: Partial<Run> = {}): Run {
  const now = Date.now();
  return {
    id: uuidv7(now),
    appNumber: 1,
    versionId: VERSION_ID,
    functionName: "run",
    method: "POST",
    isAsync: false,
    state: "success",
    statusCode: 200,
    attempt: 1,
    createdAt: now,
    startedAt: now + 1,
    completedAt: now + 3,
    updatedAt: now + 3,
    replicaId: "r-abcdefgh",
    replicaStartedAt: now - 60_000,
    ip: "127.0.0.1",
    webhookEndpoint: null,
    webhookState: "none",
    errorCode: null,
    errorMessage: null,
    errorTraceback: null,
    queueMs: 0.125,
    runMs: 1.5,
    responseMs: 2.875,
    ...fields,
  };
}
