import { afterAll, expect, test } from "vitest";
import { newSpanId, newTraceId } from "../../../src/model/trace.ts";
import { ManagementSite } from "../../support/management-site.ts";
import { sharedService } from "../../support/shared-service.ts";
import { type CollectedSpan, TraceCollector } from "../../support/trace-collector.ts";
import { verifies } from "../../verifies.ts";
import { ended, MAIN } from "../async/site.ts";
import { accepted } from "../batches/batch-site.ts";

const CHAT = `
import time

def setup():
    time.sleep(0.01)

def run():
    return {"object": "chat.completion", "usage": {"prompt_tokens": 3, "completion_tokens": 5}}
`;

let collector: TraceCollector;
const service = sharedService(
  {
    app: {
      main: MAIN,
      toml: '[scaling]\nmax_replicas = 1\n[[schedules]]\nname = "yearly"\ncron = "0 0 1 1 *"\n',
    },
    chat: { main: CHAT, toml: "[scaling]\nmax_replicas = 1\ncooldown = 0\n" },
  },
  async () => {
    collector = await TraceCollector.open();
    return collector.flags;
  },
);
afterAll(() => collector.close());

const byName = (spans: readonly CollectedSpan[], name: string) => spans.filter((span) => span.name === name);
const hasAll =
  (...names: string[]) =>
  (spans: readonly CollectedSpan[]): boolean =>
    names.every((name) => byName(spans, name).length > 0);

verifies(
  ["traces.export", "traces.spans"],
  "a call continues its caller's trace, with each span below the right one",
  async () => {
    const [traceId, parentId] = [newTraceId(), newSpanId()];
    const headers = { traceparent: `00-${traceId}-${parentId}-01`, tracestate: "congo=1" };
    const answer = await service().call("app", { n: 1 }, { headers });
    const spans = await collector.trace(traceId, hasAll("receive", "attempt", "queue", "run"));
    expect(spans.map(({ name }) => name).toSorted((a, b) => a.localeCompare(b))).toEqual(
      expect.arrayContaining(["attempt", "queue", "receive", "run"]),
    );
    const [[receive], [attempt], [queue], [run]] = ["receive", "attempt", "queue", "run"].map((name) =>
      byName(spans, name),
    ) as [CollectedSpan[], CollectedSpan[], CollectedSpan[], CollectedSpan[]];
    expect(receive).toMatchObject({ parentSpanId: parentId, kind: 2, traceState: "congo=1", error: null });
    expect(attempt?.parentSpanId).toBe(receive?.spanId);
    expect(queue?.parentSpanId).toBe(attempt?.spanId);
    expect(run?.parentSpanId).toBe(attempt?.spanId);
    expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(spans.length);
    expect(run?.attributes).toMatchObject({
      "millrace.run.id": answer.headers.get("x-request-id"),
      "millrace.project.id": service().service.owner.projectId,
      "millrace.app.name": "app",
      "millrace.function": "run",
    });
    expect(receive?.attributes).toMatchObject({ "http.request.method": "POST" });
    expect(receive?.resource).toMatchObject({ "service.name": "millrace" });
    for (const { startMs, endMs } of spans) {
      expect(endMs).toBeGreaterThanOrEqual(startMs);
      expect(startMs).toBeGreaterThanOrEqual(receive!.startMs);
      expect(endMs).toBeLessThanOrEqual(receive!.endMs);
    }
  },
);

verifies(
  "traces.sampling",
  "a caller that does not record its trace is left alone, and others begin one",
  async () => {
    const traceId = newTraceId();
    const headers = { traceparent: `00-${traceId}-${newSpanId()}-00` };
    await service().call("app", {}, { headers });
    // Exported in the order of the calls.
    const before = collector.spans.length;
    const own = await service().call("app", {});
    const runId = own.headers.get("x-request-id");
    const isOwn = (span: CollectedSpan) =>
      span.name === "run" && span.attributes["millrace.run.id"] === runId;
    while (!collector.spans.slice(before).some(isOwn)) await collector.news.wait();
    expect(collector.spans.filter((span) => span.traceId === traceId)).toEqual([]);
    const begun = collector.spans.find(isOwn)!;
    const spans = await collector.trace(begun.traceId, hasAll("receive"));
    expect(byName(spans, "receive")).toMatchObject([{ parentSpanId: "" }]);
  },
);

verifies("traces.spans", "a failure is one in its spans, with its code", async () => {
  const traceId = newTraceId();
  const headers = { traceparent: `00-${traceId}-${newSpanId()}-01` };
  expect((await service().call("app", {}, { functionName: "fail", headers })).status).toBe(500);
  const spans = await collector.trace(traceId, hasAll("receive", "run"));
  expect(byName(spans, "run")[0]).toMatchObject({
    error: "app_error",
    attributes: { "error.type": "app_error" },
  });
  expect(byName(spans, "receive")[0]).toMatchObject({ error: "500" });
});

verifies(
  ["traces.gen-ai", "traces.spans"],
  "a start is part of the queue, and tokens are attributes of the run",
  async () => {
    const traceId = newTraceId();
    const headers = { traceparent: `00-${traceId}-${newSpanId()}-01` };
    await service().call("chat", {}, { headers });
    const spans = await collector.trace(traceId, hasAll("receive", "run"));
    expect(byName(spans, "run")[0]?.attributes).toMatchObject({
      "gen_ai.operation.name": "chat",
      "gen_ai.usage.input_tokens": 3,
      "gen_ai.usage.output_tokens": 5,
    });
    const [queue] = byName(spans, "queue");
    for (const start of byName(spans, "start")) expect(start.parentSpanId).toBe(queue?.spanId);
    for (const setup of byName(spans, "setup"))
      expect(setup.parentSpanId).toBe(byName(spans, "start")[0]?.spanId);
  },
);

verifies("traces.schedule", "the run of a schedule begins a trace", async () => {
  const site = await ManagementSite.open(service());
  const app_id = `${site.projectId}-app`;
  const fired = await site.call("runSchedule", { app_id, schedule_name: "yearly" });
  const { traceId } = await ended(service(), "app", fired.json.runId);
  const spans = await collector.trace(traceId ?? "", hasAll("fire", "attempt", "run"));
  expect(byName(spans, "fire")).toMatchObject([{ parentSpanId: "", kind: 1 }]);
  expect(byName(spans, "attempt")).toMatchObject([{ parentSpanId: byName(spans, "fire")[0]?.spanId }]);
});

verifies("traces.lines", "the attempts of a batch's lines are below the span of its upload", async () => {
  const [traceId, parentId] = [newTraceId(), newSpanId()];
  const headers = { traceparent: `00-${traceId}-${parentId}-01` };
  const id = await accepted(service(), "app", '{"id":1}\n{"id":2}\n', { headers });
  const isWhole = (spans: readonly CollectedSpan[]): boolean =>
    byName(spans, "run").length === 2 && byName(spans, "receive").length > 0;
  const spans = await collector.trace(traceId, isWhole);
  const [receive, ...others] = byName(spans, "receive");
  expect([receive?.parentSpanId, others]).toEqual([parentId, []]);
  expect(receive?.attributes).toMatchObject({ "millrace.line_batch.id": id, "millrace.function": "run" });
  const attempts = byName(spans, "attempt");
  expect(attempts.map(({ parentSpanId }) => parentSpanId)).toEqual([receive?.spanId, receive?.spanId]);
  expect(new Set(attempts.map(({ attributes }) => attributes["millrace.run.id"])).size).toBe(2);
});

verifies("traces.slow", "calls go on while the collector refuses, and what is lost is counted", async () => {
  collector.status = 400;
  const metric = async () => {
    const text = await (await fetch(`${service().service.baseUrl}/metrics`)).text();
    return Number(/^millrace_spans_total\{result="dropped"\} (\d+)/m.exec(text)?.[1]);
  };
  const before = await metric();
  for (let i = 0; i < 3; i++) expect((await service().call("app", { n: i })).status).toBe(200);
  while ((await metric()) === before) await collector.news.wait();
  collector.status = 200;
});

test("protobuf is what is sent if nothing else is asked for", async () => {
  const { openExporter } = await import("../../../src/runs/traces/otlp.ts");
  const exporter = await openExporter({ ...service().settings.traces!, protocol: "http/protobuf" }, "node");
  const before = collector.requests.length;
  const ids = { traceId: newTraceId(), spanId: newSpanId() };
  const times = { startMs: 1_700_000_000_000.25, endMs: 1_700_000_000_001.5 };
  const span = { ...ids, ...times, name: "told", kind: "internal", parentId: null, state: "a=1" } as const;
  await exporter.export([{ ...span, errorCode: null, attributes: { one: 1 }, links: [ids] }]);
  await exporter.close();
  const sent = collector.requests
    .slice(before)
    .find(({ headers }) => headers["content-type"] === "application/x-protobuf");
  expect(sent?.url).toBe("/v1/traces");
  expect(sent?.body.includes(Buffer.from(ids.traceId, "hex"))).toBe(true);
  expect(sent?.body.includes("told")).toBe(true);
});
