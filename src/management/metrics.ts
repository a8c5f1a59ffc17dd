import type { FastifyInstance, FastifyRequest } from "fastify";
import type { SpanCounts } from "../kit/histograms.ts";
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
    return reply.type(CONTENT_TYPE).send(exposition(await meter.measure(), histogramsOf(parts)));
  });
  refuseOthers(app, "/metrics", ["GET"]);
}

/** How long things took, each with what tells it apart. */
type Histograms = Readonly<Partial<Record<MetricName, readonly Histogram[]>>>;
type Histogram = { readonly labels: Sample["labels"]; readonly spans: SpanCounts };

function histogramsOf({ store, seatStarts }: MetricsParts): Histograms {
  return {
    millrace_commit_seconds: [{ labels: {}, spans: store.commits }],
    millrace_seat_start_seconds: Array.from(seatStarts, ([phase, spans]) => ({ labels: { phase }, spans })),
  };
}

/** The text: each metric's meaning and type, then its values. One without labels always has a value. */
export function exposition({ byName }: Samples, histograms: Histograms): string {
  const parts = Object.entries<Metric>(METRICS).map(([key, { kind, labels, help }]) => {
    const name = key as MetricName;
    const zero = labels.length === 0 ? [{ labels: {}, value: 0 }] : [];
    const lines =
      kind === "histogram"
        ? (histograms[name] ?? []).flatMap((each) => linesOf(name, each))
        : (byName.get(name) ?? zero).map((sample) => line(name, sample));
    return [`# HELP ${name} ${help}`, `# TYPE ${name} ${kind}`, ...lines].join("\n");
  });
  return `${parts.join("\n\n")}\n`;
}

function linesOf(name: string, { labels, spans: { boundsMs, counts, count, sumMs } }: Histogram): string[] {
  let total = 0;
  const buckets = boundsMs.map((bound, i) => {
    total += counts[i] ?? 0;
    return { labels: { ...labels, le: String(bound / 1000) }, value: total };
  });
  const all = { labels: { ...labels, le: "+Inf" }, value: count };
  return [
    ...[...buckets, all].map((sample) => line(`${name}_bucket`, sample)),
    line(`${name}_sum`, { labels, value: sumMs / 1000 }),
    line(`${name}_count`, { labels, value: count }),
  ];
}

function line(name: string, { labels, value }: Sample): string {
  const pairs = Object.entries(labels).map(([key, text]) => `${key}="${text.replace(/["\\\n]/g, escape)}"`);
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${value}`;
}

function escape(character: string): string {
  return character === "\n" ? "\\n" : `\\${character}`;
}
