import { expect } from "vitest";
import type { LiveRun, RunEnd } from "../../../../src/runs/live-run.ts";
import { respond } from "../../../../src/runs/response.ts";
import { attemptSpans, type Recorded } from "../../../../src/runs/traces/run-spans.ts";
import { verifies } from "../../../verifies.ts";

const TRACE: Recorded = {
  traceId: "a".repeat(32),
  parentId: null,
  spanId: "b".repeat(16),
  isSampled: true,
  state: null,
};
const IDS = { attemptId: "1".repeat(16), runId: "2".repeat(16) };
const EPOCH = 1_000_000;

/** A run that was accepted at 0 and claimed at 100, when no replica was ready; then one starts, and gets it at 1,000. */
function started(times: object) {
  const outcome = { kind: "returned", json: Buffer.from("1"), status: 200, runMs: 400 } as const;
  const run = {
    request: { id: "id", functionName: "run", target: { projectId: "p", appName: "app", versionId: "v" } },
    call: {
      attempt: 1,
      enqueuedAt: 100,
      handedAt: 1_000,
      coldMs: 800,
      setupMs: 50,
      batch: null,
      holder: { id: "r-1", startTimes: () => times },
    },
    claim: null,
    isAsync: true,
    createdAt: EPOCH,
    claimedAt: EPOCH + 100,
    epochOf: (monotonicMs: number) => EPOCH + monotonicMs,
  } as unknown as LiveRun;
  const response = respond("id", outcome, true);
  const end: RunEnd = {
    outcome,
    response,
    timing: { queueMs: 0, startMs: 0, setupMs: 0, runMs: 1 },
    at: 1_500,
  };
  const spans = attemptSpans(run, end, TRACE, IDS);
  const nameOf = new Map(spans.map(({ spanId, name }) => [spanId, name]));
  return spans.map(({ name, parentId, startMs, endMs }) => [
    name,
    nameOf.get(parentId ?? "") ?? parentId,
    startMs - EPOCH,
    endMs - EPOCH,
  ]);
}

verifies("traces.spans", "a start on another machine has a span for each of its parts", () => {
  expect(started({ begunAt: 110, scheduledAt: 200, pulledAt: 500, importedAt: 800 })).toEqual([
    ["attempt", TRACE.spanId, 0, 1_500],
    ["queue", "attempt", 0, 1_000],
    ["start", "queue", 100, 900],
    ["schedule", "start", 110, 200],
    ["pull", "start", 200, 500],
    ["import", "start", 500, 800],
    ["setup", "start", 850, 900],
    ["run", "attempt", 1_000, 1_500],
  ]);
});

verifies("traces.spans", "what a start had done before the call came is not in its trace", () => {
  const parts = (times: object) =>
    started(times)
      .filter(([, parent]) => parent === "start")
      .map(([name, , from, to]) => [name, from, to]);
  // A fork of a template that had been imported before.
  expect(parts({ begunAt: 110, scheduledAt: 0, pulledAt: 0, importedAt: 50 })).toEqual([["setup", 850, 900]]);
  // The import had begun.
  expect(parts({ begunAt: 20, scheduledAt: 0, pulledAt: 0, importedAt: 700 })).toEqual([
    ["import", 100, 700],
    ["setup", 850, 900],
  ]);
});
