import type { FastifyInstance, FastifyRequest } from "fastify";
import type { SpanCounts } from "../kit/span-counts.ts";
import { refuseOthers } from "./api/mount.ts";
import { Meter } from "./measure.ts";
import type { MeasuredParts, Sample, Samples } from "./measure.ts";
import { METRICS } from "./metric-table.ts";
import type { Metric, MetricName } from "./metric-table.ts";

export type MetricsParts = MeasuredParts & {
  /** Throws unless the request may see what only the operator may know. */
  readonly authorizeOperator: (request: FastifyRequest) => Promise<void>;
};

const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** `GET /metrics`, in the text form that Prometheus reads. */
export function metricsRoutes(app: FastifyInstance, parts: MetricsParts): void {
  const meter = new Meter(parts);
  app.addHook("onClose", () => meter.stop());
  app.get("/metrics", async (request, reply) => {
    await parts.authorizeOperator(request);
    return reply.type(CONTENT_TYPE).send(exposition(await meter.measure(), parts.store.commits));
  });
  refuseOthers(app, "/metrics", ["GET"]);
}

/** The text: each metric's meaning and type, then its values. One without labels always has a value. */
export function exposition({ byName }: Samples, commits: SpanCounts): string {
  const parts = Object.entries<Metric>(METRICS).map(([name, { kind, labels, help }]) => {
    const zero = labels.length === 0 ? [{ labels: {}, value: 0 }] : [];
    const lines =
      kind === "histogram"
        ? histogram(name, commits)
        : (byName.get(name as MetricName) ?? zero).map((sample) => line(name, sample));
    return [`# HELP ${name} ${help}`, `# TYPE ${name} ${kind}`, ...lines].join("\n");
  });
  return `${parts.join("\n\n")}\n`;
}

function histogram(name: string, { boundsMs, counts, count, sumMs }: SpanCounts): string[] {
  let total = 0;
  const buckets = boundsMs.map((bound, i) => {
    total += counts[i] ?? 0;
    return { labels: { le: String(bound / 1000) }, value: total };
  });
  return [
    ...[...buckets, { labels: { le: "+Inf" }, value: count }].map((sample) => line(`${name}_bucket`, sample)),
    line(`${name}_sum`, { labels: {}, value: sumMs / 1000 }),
    line(`${name}_count`, { labels: {}, value: count }),
  ];
}

function line(name: string, { labels, value }: Sample): string {
  const pairs = Object.entries(labels).map(([key, text]) => `${key}="${text.replace(/["\\\n]/g, escape)}"`);
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${value}`;
}

function escape(character: string): string {
  return character === "\n" ? "\\n" : `\\${character}`;
}
