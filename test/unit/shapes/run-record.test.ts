import { describe, expect, test } from "vitest";
import { type Run, RUN_STATES, WEBHOOK_STATES } from "../../../src/model/run.ts";
import { RUN, buildOf, runRecord } from "../../../src/shapes/runs.ts";
import { verifies } from "../../verifies.ts";

const APP = { projectId: "p-1a2b3c4d", name: "hello" };

const ENDED: Run = {
  id: "0197c3a0-7e1b-7abc-8def-0123456789ab",
  appNumber: 7,
  versionId: "6f2d3c1e-0000-4000-8000-000000000000",
  functionName: "run",
  method: "POST",
  isAsync: false,
  isWebSocket: false,
  state: "failure",
  statusCode: 500,
  attempt: 1,
  interruptions: 0,
  createdAt: Date.UTC(2026, 0, 2, 3, 4, 5, 6),
  dueAt: null,
  startedAt: Date.UTC(2026, 0, 2, 3, 4, 5, 7),
  completedAt: Date.UTC(2026, 0, 2, 3, 4, 5, 9),
  updatedAt: Date.UTC(2026, 0, 2, 3, 4, 5, 9),
  replicaId: "r-abc",
  replicaStartedAt: Date.UTC(2026, 0, 2, 3, 4, 0),
  ip: "127.0.0.1",
  accountId: "sa-1",
  user: null,
  webhookEndpoint: null,
  webhookState: "none",
  errorCode: "app_error",
  errorMessage: "ValueError: no",
  errorTraceback: "Traceback …",
  queueMs: 1.25,
  runMs: 2.5,
  responseMs: 3.75,
  requestBytes: null,
  responseBytes: null,
  batchSize: null,
  batchReason: null,
  gpuMs: null,
  inputTokens: null,
  outputTokens: null,
  terms: null,
  trace: null,
};

const WAITING: Run = {
  ...ENDED,
  state: "queued",
  statusCode: null,
  startedAt: null,
  completedAt: null,
  replicaId: null,
  replicaStartedAt: null,
  errorCode: null,
  errorMessage: null,
  errorTraceback: null,
  queueMs: null,
  runMs: null,
  responseMs: null,
};

/** The contract's list, in its words. */
const FIELDS =
  "id projectId modelId functionName method async websocket status statusCode attempt createdAt startedAt " +
  "completedAt updatedAt containerId containerStartedAt ip region webhookEndpoint webhookStatus error " +
  "queueTimeMs runtimeMs responseTimeMs activatorQueueTimeMs containerQueueTimeMs totalQueueTimeMs " +
  "executionTimeMs totalResponseTimeMs requestBytes responseBytes";

describe("a run as callers see it", () => {
  verifies("run-record.fields", "has exactly the contract's fields, ended or waiting", () => {
    for (const run of [ENDED, WAITING]) expect(Object.keys(runRecord(run, APP))).toEqual(FIELDS.split(" "));
    expect(runRecord(ENDED, APP)).toMatchObject({
      id: ENDED.id,
      projectId: "p-1a2b3c4d",
      modelId: "p-1a2b3c4d-hello",
      createdAt: "2026-01-02T03:04:05.006Z",
      startedAt: "2026-01-02T03:04:05.007Z",
      completedAt: "2026-01-02T03:04:05.009Z",
      containerId: "r-abc",
      containerStartedAt: "2026-01-02T03:04:00.000Z",
    });
  });

  test("has null, never an empty text, for what has not happened", () => {
    const values = Object.values(runRecord(WAITING, APP));
    expect(values).not.toContain("");
    expect(values).not.toContain(undefined);
    expect(runRecord(WAITING, APP)).toMatchObject({ startedAt: null, completedAt: null, containerId: null });
  });

  verifies(
    "run-record.batch",
    "says how many calls left together and why, for a batched function alone",
    () => {
      const record = runRecord({ ...ENDED, batchSize: 32, batchReason: "full" }, APP);
      expect(Object.keys(record)).toEqual([...FIELDS.split(" "), "batchSize", "batchReason"]);
      expect(RUN.parse(record)).toMatchObject({ batchSize: 32, batchReason: "full" });
    },
  );

  test("has the build of its version, unless it is of a file", () => {
    expect(buildOf(ENDED)).toBe(ENDED.versionId);
    expect(buildOf({ ...ENDED, functionName: "/a.json" })).toBe(ENDED.versionId);
    expect(buildOf({ ...ENDED, functionName: "main.py::run" })).toBeNull();
  });

  verifies("run-record.states", "has one of the five states as its status", () => {
    expect(RUN_STATES).toEqual(["queued", "running", "success", "failure", "cancelled"]);
    for (const state of RUN_STATES) expect(runRecord({ ...ENDED, state }, APP).status).toBe(state);
  });

  verifies("run-record.webhook-states", "has one of the four webhook states", () => {
    expect(WEBHOOK_STATES).toEqual(["none", "pending", "delivered", "failed"]);
    for (const webhookState of WEBHOOK_STATES) {
      expect(runRecord({ ...ENDED, webhookState }, APP).webhookStatus).toBe(webhookState);
    }
  });

  verifies("run-record.error", "has code and message of its error, or null", () => {
    expect(runRecord(ENDED, APP).error).toEqual({ code: "app_error", message: "ValueError: no" });
    expect(runRecord(WAITING, APP).error).toBeNull();
  });

  verifies("run-record.times", "has three times as they were measured and five in whole milliseconds", () => {
    expect(runRecord(ENDED, APP)).toMatchObject({
      queueTimeMs: 1.25,
      runtimeMs: 2.5,
      responseTimeMs: 3.75,
      activatorQueueTimeMs: 1,
      containerQueueTimeMs: 0,
      totalQueueTimeMs: 1,
      executionTimeMs: 3,
      totalResponseTimeMs: 4,
    });
    const none = Object.entries(runRecord(WAITING, APP)).filter(([name]) => name.endsWith("Ms"));
    expect(none.map(([, value]) => value)).toEqual(Array(8).fill(null));
  });

  verifies("run-record.status-null", "has no status code while queued or running, and when cancelled", () => {
    for (const state of ["queued", "running", "cancelled"] as const) {
      expect(runRecord({ ...WAITING, state }, APP)).toMatchObject({ status: state, statusCode: null });
    }
    expect(runRecord(ENDED, APP).statusCode).toBe(500);
  });
});
