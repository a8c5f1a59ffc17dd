import { expect, test } from "vitest";
import { SpanCounts } from "../../../src/kit/histograms.ts";
import { makeRun, NOT_BEGUN, type Run } from "../../../src/model/run.ts";
import { OTHER_FUNCTION, RunTally, SERVER_FUNCTION } from "../../../src/runs/run-tally.ts";
import { verifies } from "../../verifies.ts";
import { NO_WISHES } from "../../../src/model/wishes.ts";

const TRACE = { traceId: "aa", parentId: null, spanId: null, isSampled: true, state: null };
const TIMING = { queueMs: 10, startMs: 0, setupMs: 0, runMs: 40 };

function ended(functionName: string, changes: Partial<Run> = {}): Run {
  const origin = {
    id: "r",
    target: { appNumber: 7, versionId: "v" },
    functionName,
    ip: null,
    caller: null,
    webhook: null,
  };
  const progress = { ...NOT_BEGUN, isAsync: false, state: "success" as const, createdAt: 1_000 };
  return { ...makeRun(origin, { ...progress, startedAt: 1_010, responseMs: 60 }), ...changes };
}

verifies(
  "metrics.functions",
  "a run's end counts its state, its error and its times, by app and function",
  () => {
    const tally = new RunTally();
    tally.add(ended("run"), TIMING);
    tally.add(ended("run", { state: "failure", errorCode: "app_error" }), { ...TIMING, startMs: 3_000 });
    tally.add(ended("run", { state: "cancelled", errorCode: "cancelled" }), null);
    const run = tally.byApp.get(7)?.get("run");
    expect(run?.states).toEqual({ success: 1, failure: 1, cancelled: 1 });
    expect([...(run?.codes ?? [])]).toEqual([["app_error", 1]]);
    const spans = [run?.response, run?.queue, run?.coldStart, run?.execution];
    expect(spans.map((span) => [span?.count, span?.sumMs])).toEqual([
      [3, 180],
      [2, 20],
      [1, 3_000],
      [2, 80],
    ]);
    tally.forget(7);
    expect(tally.byApp.size).toBe(0);
  },
);

verifies(
  "metrics.bounded",
  "names that callers make up are counted together, and so are paths of a server",
  () => {
    const tally = new RunTally();
    for (let i = 0; i < 5_000; i++) {
      tally.add(ended(`made_up_${i}`, { state: "failure", errorCode: "queue_full", startedAt: null }), null);
      tally.add(ended(`no_such_${i}`, { state: "failure", errorCode: "function_not_found" }), TIMING);
    }
    tally.add(ended("/one"), TIMING);
    tally.add(ended("/two", { state: "failure", statusCode: 404 }), TIMING);
    tally.add(ended("/two", { state: "failure", statusCode: 502 }), TIMING);
    const functions = tally.byApp.get(7);
    expect([...(functions?.keys() ?? [])]).toEqual([OTHER_FUNCTION, SERVER_FUNCTION]);
    expect(functions?.get(OTHER_FUNCTION)?.states.failure).toBe(10_000);
    expect([...(functions?.get(SERVER_FUNCTION)?.codes ?? [])]).toEqual([
      ["http_4xx", 1],
      ["http_5xx", 1],
    ]);
    // Even an app that has more functions than it may.
    for (let i = 0; i < 2_000; i++) tally.add(ended(`real_${i}`), TIMING);
    expect(functions?.size).toBe(1_000);
  },
);

verifies(
  "metrics.functions",
  "a function that is known is counted by its name before it has ever begun",
  () => {
    const hasFunction = (appNumber: number, name: string): boolean => appNumber === 7 && name === "run";
    const tally = new RunTally(false, { serves: () => true, hasFunction });
    const failed = { state: "failure", errorCode: "app_not_ready", startedAt: null } as const;
    tally.add(ended("run", failed), null);
    tally.add(ended("made_up", failed), null);
    expect([...tally.byApp.get(7)!.keys()]).toEqual(["run", OTHER_FUNCTION]);
  },
);

verifies("metrics.bounded", "a run that ends after its app was deleted is not counted", () => {
  const served = new Set([7]);
  const tally = new RunTally(false, { serves: (app) => served.has(app), hasFunction: () => false });
  tally.add(ended("run"), TIMING);
  served.delete(7);
  tally.forget(7);
  tally.add(ended("run"), TIMING);
  expect(tally.byApp.size).toBe(0);
});

test("a delay that the caller asked for is no waiting time", () => {
  const tally = new RunTally();
  const terms = { ...NO_WISHES, notBefore: 6_000, startBy: null, endBy: null };
  tally.add(ended("run", { terms, responseMs: 5_060 }), { ...TIMING, queueMs: 5_010 });
  const run = tally.byApp.get(7)?.get("run");
  expect([run?.response.sumMs, run?.queue.sumMs]).toEqual([60, 10]);
});

verifies("metrics.openmetrics", "a class keeps the trace of its latest run", () => {
  const tally = new RunTally();
  tally.add(ended("run"), TIMING);
  // A trace that is not recorded cannot be looked up.
  tally.add(ended("run", { trace: { ...TRACE, isSampled: false } }), TIMING);
  expect(tally.byApp.get(7)?.get("run")?.response.exemplars).toBeNull();
  for (const [traceId, updatedAt] of [
    ["aa", 1_000],
    ["bb", 2_000],
  ] as const)
    tally.add(ended("run", { updatedAt, trace: { ...TRACE, traceId } }), TIMING);
  const { response } = tally.byApp.get(7)!.get("run")!;
  expect(response.exemplars?.filter(Boolean)).toEqual([{ traceId: "bb", ms: 60, at: 2_000 }]);
  const sum = new SpanCounts(response.boundsMs);
  sum.addAll(response);
  sum.addAll(response);
  expect([sum.count, sum.exemplars?.[2]?.traceId]).toEqual([8, "bb"]);
});
