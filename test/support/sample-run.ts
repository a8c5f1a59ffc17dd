import { randomUUID } from "node:crypto";
import { uuidv7 } from "./ids.ts";
import type { NewDelivery } from "../../src/model/delivery.ts";
import type { Payload, Run } from "../../src/model/run.ts";
import type { EndedRun } from "../../src/store/runs/ended-runs.ts";

const VERSION_ID = uuidv7(Date.now());

/** The id of a run that was accepted then, in no order with others of that time. */
export function idAt(ms: number): string {
  const time = Math.floor(ms).toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}

/** The record of a sync run that succeeded, with the fields that a test cares about replaced. */
export function sampleRun(fields: Partial<Run> = {}): Run {
  const now = Date.now();
  return {
    id: fields.id ?? uuidv7(now),
    appNumber: 1,
    versionId: VERSION_ID,
    functionName: "run",
    method: "POST",
    isAsync: false,
    isWebSocket: false,
    state: "success",
    statusCode: 200,
    attempt: 1,
    interruptions: 0,
    createdAt: now,
    dueAt: null,
    startedAt: now + 1,
    completedAt: now + 3,
    updatedAt: now + 3,
    replicaId: "r-abcdefgh",
    replicaStartedAt: now - 60_000,
    ip: "127.0.0.1",
    accountId: "sa-sample",
    user: null,
    webhookEndpoint: null,
    webhookState: "none",
    errorCode: null,
    errorMessage: null,
    errorTraceback: null,
    queueMs: 0.125,
    runMs: 1.5,
    responseMs: 2.875,
    requestBytes: null,
    responseBytes: null,
    batchSize: null,
    batchReason: null,
    gpuMs: null,
    inputTokens: null,
    outputTokens: null,
    terms: null,
    trace: null,
    ...fields,
  };
}

/** A run that ended, with what is kept beside its record where a test gives it. */
export function sampleEnd(run: Run = sampleRun(), kept: Partial<EndedRun> = {}): EndedRun {
  return { run, payload: null, part: null, ...kept };
}

/** The payload of a run that has not ended, with the fields that a test cares about replaced. */
export function samplePayload(fields: Partial<Payload> = {}): Payload {
  return {
    input: Buffer.from('{"a":1}'),
    result: null,
    contentType: null,
    isBare: false,
    sealedSecret: null,
    ...fields,
  };
}

/** A delivery of that run's response, due at once, with the fields that a test cares about replaced. */
export function sampleDelivery(run: Run, fields: Partial<NewDelivery> = {}): NewDelivery {
  return {
    id: run.id,
    appNumber: run.appNumber,
    url: "https://example.test/hook",
    contentType: "application/json",
    runStatus: 200,
    body: Buffer.from('{"result":1}'),
    sealedSecret: null,
    nextAt: run.createdAt,
    createdAt: run.createdAt,
    trace: null,
    ...fields,
  };
}

/** A queued async run, with the fields that a test cares about replaced. */
export function queuedRun(fields: Partial<Run> = {}): Run {
  return sampleRun({
    isAsync: true,
    state: "queued",
    statusCode: null,
    startedAt: null,
    completedAt: null,
    replicaId: null,
    replicaStartedAt: null,
    queueMs: null,
    runMs: null,
    responseMs: null,
    ...fields,
  });
}
