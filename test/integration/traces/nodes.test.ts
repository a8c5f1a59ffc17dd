import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, expect } from "vitest";
import { newSpanId, newTraceId } from "../../../src/model/trace.ts";
import type { TestService } from "../../support/service.ts";
import { type CollectedSpan, TraceCollector } from "../../support/trace-collector.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";
import { ended } from "../async/site.ts";
import { pair } from "../nodes/pair.ts";

/** Each run fails once; `hold` keeps the only replica while others gather. */
const MAIN = `
import os, time

def run(n: list[int], run_id: list[str]):
    results = []
    for each, id in zip(n, run_id):
        if os.path.exists("seen-" + id):
            results.append(each * 2)
        else:
            open("seen-" + id, "w").close()
            results.append(ConnectionError("once"))
    return results

def hold():
    open("held", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.005)
`;

const collector = await TraceCollector.open();
afterAll(() => collector.close());

const services = pair(
  {
    app: {
      main: MAIN,
      toml:
        "[scaling]\nmax_replicas = 1\n[batching.run]\n" +
        '[retry]\non = ["ConnectionError"]\nmax_attempts = 2\ninitial_delay = 0\n',
    },
  },
  { ...collector.flags, webhookAllow: "127.0.0.0/8" },
);

const byName = (spans: readonly CollectedSpan[], name: string): CollectedSpan[] =>
  spans.filter((span) => span.name === name);

/** Submits a run to that node; returns its id and the caller's part of its trace. */
async function submit(on: TestService, n: number, target: WebhookTarget) {
  const [traceId, parentId] = [newTraceId(), newSpanId()];
  const suffix = `?async=true&webhookEndpoint=${encodeURIComponent(`${target.url}/${traceId}`)}`;
  const headers = { traceparent: `00-${traceId}-${parentId}-01` };
  const answer = await on.call("app", { n }, { suffix, headers });
  expect(answer.status).toBe(202);
  return { id: String(answer.json.run_id), n, traceId, parentId };
}

verifies(
  ["traces.export", "traces.async", "traces.batch", "traces.webhook"],
  "an async, retried, batched run through two nodes with a webhook is one trace: each span once, below the right one",
  async () => {
    const target = await WebhookTarget.open();
    const hookOf = (traceId: string) => target.received.find(({ path }) => path === `/${traceId}`);
    const { owner, other } = await services.sides("app");
    const held = other.call("app", {}, { functionName: "hold" });
    const { first } = services;
    const file = (name: string) => path.join(owner.bundleDir(first.apps.get("app")!), name);
    await until("the replica is busy", () => existsSync(file("held")));
    const runs = [await submit(other, 1, target), await submit(other, 2, target)];
    writeFileSync(file("go"), "");
    await held;
    for (const { id, n } of runs)
      expect(await ended(other, "app", id)).toMatchObject({ status: "success", attempt: 2, result: n * 2 });
    await until("both webhooks have come", () => runs.every(({ traceId }) => hookOf(traceId) !== undefined));
    const traces: CollectedSpan[][] = [];
    for (const { traceId } of runs)
      traces.push(await collector.trace(traceId, (spans) => byName(spans, "delivery").length > 0));
    const batches = traces.flatMap((spans) => byName(spans, "batch"));
    const runSpans = traces.flatMap((spans) => byName(spans, "run"));
    for (const [i, { id, traceId, parentId }] of runs.entries()) {
      const spans = traces[i]!;
      const receive = byName(spans, "receive");
      expect(receive).toMatchObject([
        { parentSpanId: parentId, attributes: { "http.response.status_code": 202 } },
      ]);
      const attempts = byName(spans, "attempt");
      expect(
        attempts
          .map(({ attributes }) => Number(attributes["millrace.run.attempt"]))
          .toSorted((a, b) => a - b),
      ).toEqual([1, 2]);
      for (const attempt of attempts) {
        expect(attempt.parentSpanId).toBe(receive[0]?.spanId);
        for (const name of ["queue", "run"])
          expect([
            name,
            byName(spans, name).filter((span) => span.parentSpanId === attempt.spanId).length,
          ]).toEqual([name, 1]);
      }
      const [delivery] = byName(spans, "delivery");
      expect(delivery).toMatchObject({ parentSpanId: receive[0]?.spanId, kind: 3, error: null });
      expect(byName(spans, "delivery")).toHaveLength(1);
      expect(hookOf(traceId)?.headers["traceparent"]).toBe(`00-${traceId}-${delivery?.spanId}-01`);
      expect(spans.filter(({ name }) => !["queue", "start", "setup"].includes(name)).length).toBe(
        6 + byName(spans, "batch").length,
      );
      expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(spans.length);
      for (const span of [...attempts, ...byName(spans, "run")])
        expect(span.attributes["millrace.run.id"]).toBe(id);
    }
    // They left together at least once: after the replica was free.
    expect(batches.length).toBeGreaterThan(0);
    for (const batch of batches) {
      const members = runSpans.filter(({ links }) => links.some(({ spanId }) => spanId === batch.spanId));
      expect(members).toHaveLength(2);
      expect(new Set(batch.links.map(({ spanId }) => spanId))).toEqual(
        new Set(members.map(({ spanId }) => spanId)),
      );
      expect(members.map(({ spanId }) => spanId)).toContain(batch.parentSpanId);
    }
  },
);
