import { expect } from "vitest";
import { newSpanId, newTraceId } from "../../../src/model/trace.ts";
import { sharedService } from "../../support/shared-service.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";
import { ended, recordOf, submit } from "../async/site.ts";
import { accepted, endedBatch, results } from "../batches/batch-site.ts";

// Without an endpoint, a trace is only passed on.

/** As the real package does it, as far as the harness and an app use it. */
const OPENTELEMETRY = {
  "opentelemetry/__init__.py": "",
  "opentelemetry/context.py": `
import contextvars
_current = contextvars.ContextVar("current", default={})
attach = _current.set
detach = _current.reset
get_current = _current.get
`,
  "opentelemetry/trace.py": `
from collections import namedtuple
from . import context
SpanContext = namedtuple("SpanContext", "trace_id span_id is_remote trace_flags trace_state")
NonRecordingSpan = namedtuple("NonRecordingSpan", "context")
TraceFlags = int
class TraceState:
    from_header = staticmethod(",".join)
def set_span_in_context(span):
    return {**context.get_current(), "span": span}
def current():
    span = context.get_current().get("span")
    return span and ["%032x" % span.context.trace_id, "%016x" % span.context.span_id, span.context.trace_state]
`,
};

const MAIN = `
import asyncio
import millrace

def told():
    return [millrace.run.traceparent, millrace.run.tracestate]

def run():
    return told()

async def later():
    await asyncio.sleep(0)
    return told()

def relay(url, project, token):
    return millrace.Millrace(url, project, token).run("app").result

def flaky():
    if millrace.run.attempt == 1:
        raise ConnectionError("again")
    return told()
`;

/** One way of running calls each: on the main thread, in threads, on a loop, and in batches. */
const CONTEXT = `
import opentelemetry.context
from opentelemetry import trace

def run():
    return trace.current()

def stream():
    yield str(trace.current())
`;
const BATCHED = `${CONTEXT}
def together(n: list[int]):
    return [trace.current() for _ in n]
`;
const LOOPED = `${CONTEXT}
async def later():
    return trace.current()
`;

const service = sharedService(
  {
    app: {
      main: MAIN,
      toml: '[scaling]\nmax_replicas = 1\n[retry]\non = ["ConnectionError"]\nmax_attempts = 2\ninitial_delay = 0\n',
    },
    open: {
      main: MAIN.replaceAll("async def", "def").replace(/.*asyncio.*\n/g, ""),
      toml: "[deployment]\ndisable_auth = true\n",
    },
    server: serverApp(),
    serial: { main: BATCHED, toml: "[batching.together]\n", files: OPENTELEMETRY },
    threaded: { main: CONTEXT, toml: "[scaling]\nreplica_concurrency = 2\n", files: OPENTELEMETRY },
    looped: { main: LOOPED, files: OPENTELEMETRY },
  },
  { webhookAllow: "127.0.0.0/8" },
);

function newParent(flags = "01"): string {
  return `00-${newTraceId()}-${newSpanId()}-${flags}`;
}

verifies(
  ["traces.function", "traces.run-id", "traces.record"],
  "a function gets the trace of its call",
  async () => {
    const traceparent = newParent();
    const headers = { traceparent, tracestate: "congo=t61, rojo=00f" };
    for (const functionName of ["run", "later"]) {
      const answer = await service().call("app", {}, { functionName, headers });
      expect(answer.json.result).toEqual([traceparent, "congo=t61,rojo=00f"]);
      const runId = answer.headers.get("x-request-id") ?? "";
      expect(runId.replaceAll("-", "")).not.toContain(traceparent.slice(3, 35));
      await service().service.settle();
      expect(await recordOf(service(), "app", runId)).toMatchObject({ traceId: traceparent.slice(3, 35) });
    }
    const plain = await service().call("app");
    expect(plain.json.result).toEqual([null, null]);
    await service().service.settle();
    expect(await recordOf(service(), "app", plain.headers.get("x-request-id") ?? "")).not.toHaveProperty(
      "traceId",
    );
  },
);

verifies("traces.client", "a function that calls another app passes its trace on", async () => {
  const traceparent = newParent();
  const headers = { traceparent, tracestate: "a=1" };
  const { apiUrl: url, owner } = service().service;
  const args = { url, project: owner.projectId, token: owner.token };
  // Not the same app, whose only replica would wait for itself.
  const call = async (given: Record<string, string>) =>
    (await service().call("open", args, { functionName: "relay", headers: given })).json.result;
  expect(await call(headers)).toEqual([traceparent, "a=1"]);
  expect(await call({})).toEqual([null, null]);
});

verifies(
  "traces.w3c",
  "a traceparent that is not valid is none, and its tracestate is not read",
  async () => {
    const headers = { traceparent: newParent().toUpperCase(), tracestate: "a=1" };
    expect((await service().call("app", {}, { headers })).json.result).toEqual([null, null]);
    const twice = { traceparent: `${newParent()}, ${newParent()}` };
    expect((await service().call("app", {}, { headers: twice })).json.result).toEqual([null, null]);
  },
);

verifies("traces.token", "without a valid token, nothing asks for a trace to be recorded", async () => {
  const traceparent = newParent();
  const call = async (token: string | null) =>
    (await service().call("open", {}, { headers: { traceparent }, token })).json.result[0];
  expect(await call(service().service.owner.token)).toBe(traceparent);
  const unsampled = traceparent.replace(/01$/, "00");
  expect(await call(null)).toBe(unsampled);
  expect(await call("no token")).toBe(unsampled);
});

verifies("traces.function", "it is OpenTelemetry's current context while the app's code runs", async () => {
  const traceparent = newParent();
  const [, traceId, spanId] = traceparent.split("-");
  const headers = { traceparent, tracestate: "a=1" };
  const current = [traceId, spanId, "a=1"];
  for (const [app, functionName] of [
    ["serial", "run"],
    ["threaded", "run"],
    ["looped", "run"],
    ["looped", "later"],
  ] as const) {
    const result = async (given: Record<string, string>) =>
      (await service().call(app, {}, { functionName, headers: given })).json.result;
    expect([app, functionName, await result(headers)]).toEqual([app, functionName, current]);
    expect([app, functionName, await result({})]).toEqual([app, functionName, null]);
  }
  const together = { functionName: "together", headers };
  expect((await service().call("serial", { n: 1 }, together)).json.result).toEqual(current);
  const streamed = await service().call("serial", {}, { functionName: "stream", headers });
  expect(streamed.text).toContain(traceId);
});

verifies(
  "traces.server",
  "a server app gets it with each request, in place of what else is called so",
  async () => {
    const tracesIn = (answer: {
      readonly json: { readonly headers: readonly (readonly [string, string])[] };
    }) =>
      answer.json.headers
        .filter(([name]) => /^trace/i.test(name))
        .map(([name, value]) => [name.toLowerCase(), value]);
    const traceparent = newParent();
    const good = await service().call("server", {}, { headers: { traceparent, tracestate: "a=1" } });
    expect(tracesIn(good)).toEqual([
      ["traceparent", traceparent],
      ["tracestate", "a=1"],
    ]);
    const bad = await service().call("server", {}, { headers: { traceparent: "bad", tracestate: "a=1" } });
    expect(tracesIn(bad)).toEqual([]);
    const id = await submit(service(), "server", {}, { headers: { traceparent } });
    const { result } = await ended(service(), "server", id);
    expect(tracesIn({ json: result as never })).toEqual([["traceparent", traceparent]]);
  },
);

verifies(
  "traces.lines",
  "the lines of a batch have the trace of its upload, and so has its webhook",
  async () => {
    const target = await WebhookTarget.open();
    const traceparent = newParent();
    const traceId = traceparent.slice(3, 35);
    const headers = { traceparent, tracestate: "a=1" };
    const suffix = `?webhookEndpoint=${encodeURIComponent(`${target.url}/hook`)}`;
    const id = await accepted(service(), "app", '{"id":1}\n{"id":2}\n', { suffix, headers });
    expect(await endedBatch(service(), "app", id)).toMatchObject({ succeeded: 2 });
    for (const { result, run_id: runId } of await results(service(), "app", id)) {
      expect(result).toEqual([traceparent, "a=1"]);
      expect(await recordOf(service(), "app", runId ?? "")).toMatchObject({ traceId });
    }
    while (target.received.length === 0) await target.news.wait();
    expect(target.received[0]?.headers).toMatchObject(headers);
  },
);

verifies(
  ["traces.async", "traces.webhook"],
  "an async run has its trace at each attempt, and so has its webhook",
  async () => {
    const target = await WebhookTarget.open();
    const traceparent = newParent("00");
    const suffix = `?async=true&webhookEndpoint=${encodeURIComponent(`${target.url}/hook`)}`;
    const answer = await service().call(
      "app",
      {},
      { functionName: "flaky", suffix, headers: { traceparent } },
    );
    expect(answer.status).toBe(202);
    const run = await ended(service(), "app", answer.json.run_id);
    expect(run).toMatchObject({ attempt: 2, result: [traceparent, null], traceId: traceparent.slice(3, 35) });
    while (target.received.length === 0) await target.news.wait();
    expect(target.received[0]?.headers).toMatchObject({ traceparent });
    expect(target.received[0]?.headers).not.toHaveProperty("tracestate");
  },
);
