import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Metric as PromMetric, Registry } from "prom-client";
import type { SpanCounts } from "../kit/span-counts.ts";
import { refuseOthers } from "./api/mount.ts";
import { Meter } from "./measure.ts";
import type { MeasuredParts, Samples } from "./measure.ts";
import { METRICS } from "./metric-table.ts";
import type { Metric, MetricName } from "./metric-table.ts";

export type MetricsParts = MeasuredParts & {
  /** Throws unless the request may see what only the operator may know. */
  readonly authorizeOperator: (request: FastifyRequest) => Promise<void>;
};

/** `GET /metrics`, in the text form that Prometheus reads. */
export function metricsRoutes(app: FastifyInstance, parts: MetricsParts): void {
  const meter = new Meter(parts);
  app.addHook("onClose", () => meter.stop());
  app.get("/metrics", async (request, reply) => {
    await parts.authorizeOperator(request);
    const registry = await fill(await meter.measure(), parts.store.commits);
    return reply.type(registry.contentType).send(await registry.metrics());
  });
  refuseOthers(app, "/metrics", ["GET"]);
}

async function fill({ byName }: Samples, commits: SpanCounts): Promise<Registry> {
  // Loaded when it is first used: it takes 60 to 250 ms, and nobody may ever ask.
  const { Counter, Gauge, Registry } = await import("prom-client");
  const registry = new Registry();
  for (const [name, { kind, labels, help }] of Object.entries<Metric>(METRICS)) {
    if (kind === "histogram") {
      registry.registerMetric(histogram(name, help, commits));
      continue;
    }
    const settings = { name, help, labelNames: labels, registers: [registry] };
    const samples = byName.get(name as MetricName) ?? [];
    if (kind === "counter") {
      const counter = new Counter(settings);
      for (const { labels: of, value } of samples) counter.inc(of, value);
    } else {
      const gauge = new Gauge(settings);
      for (const { labels: of, value } of samples) gauge.set(of, value);
    }
  }
  return registry;
}

/** Prom-client's own histogram takes one observation at a time; this one has been counted already. */
function histogram(name: string, help: string, { boundsMs, counts, count, sumMs }: SpanCounts): PromMetric {
  let total = 0;
  const buckets = boundsMs.map((bound, i) => {
    total += counts[i] ?? 0;
    return { metricName: `${name}_bucket`, labels: { le: String(bound / 1000) }, value: total };
  });
  const values = [
    ...buckets,
    { metricName: `${name}_bucket`, labels: { le: "+Inf" }, value: count },
    { metricName: `${name}_sum`, labels: {}, value: sumMs / 1000 },
    { metricName: `${name}_count`, labels: {}, value: count },
  ];
  const metric = {
    name,
    help,
    type: "histogram",
    get: () => Promise.resolve({ name, help, type: "histogram", values }),
  };
  return metric as unknown as PromMetric;
}
