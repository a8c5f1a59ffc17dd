import type { ResourceMetrics } from "@opentelemetry/sdk-metrics";
import type { MetricExportSettings } from "../../config/metric-export.ts";
import { VERSION } from "../../config/package-files.ts";
import { resourceOf } from "../../runs/traces/otlp.ts";
import type { Point, PointMetric } from "./points.ts";

export type MetricExporter = {
  /** Rejects if they did not arrive; the next export has what they told, too. */
  export(metrics: readonly PointMetric[], span: ExportSpan): Promise<void>;
  close(): Promise<void>;
};

/** Since when sums are counted, and until when; epoch milliseconds. */
type ExportSpan = { readonly startMs: number; readonly endMs: number };

type MetricData = ResourceMetrics["scopeMetrics"][number]["metrics"][number];

const NAME = "millrace";

/** Loads OpenTelemetry's own packages, which read the further `OTEL_*` variables themselves. */
export async function openMetricExporter(
  { url, protocol }: MetricExportSettings,
  nodeId: string,
): Promise<MetricExporter> {
  const { ValueType } = await import("@opentelemetry/api");
  const { AggregationTemporality, DataPointType } = await import("@opentelemetry/sdk-metrics");
  const { OTLPMetricExporter } =
    protocol === "http/json"
      ? await import("@opentelemetry/exporter-metrics-otlp-http")
      : await import("@opentelemetry/exporter-metrics-otlp-proto");
  const exporter = new OTLPMetricExporter({ url });
  const resource = await resourceOf(nodeId);
  const scope = { name: NAME, version: VERSION };

  /** A metric of one kind, or of two: histograms of runs are exponential, others have bounds. */
  const dataOf = (metric: PointMetric, { startMs, endMs }: ExportSpan): MetricData[] => {
    const { name, kind, help: description, numbers, explicit, exponential } = metric;
    const [startTime, endTime] = [hrTime(startMs), hrTime(endMs)];
    const points = <Value, Told>(all: readonly Point<Value>[], tell: (value: Value) => Told) =>
      all.map(({ attributes, value }) => ({ attributes, startTime, endTime, value: tell(value) }));
    const shared = {
      descriptor: { name, description, unit: unitOf(name), valueType: ValueType.DOUBLE },
      aggregationTemporality: AggregationTemporality.CUMULATIVE,
    };
    const data: MetricData[] = [];
    if (numbers.length > 0) {
      const dataPoints = points(numbers, (value) => value);
      if (kind === "gauge") data.push({ ...shared, dataPointType: DataPointType.GAUGE, dataPoints });
      else data.push({ ...shared, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints });
    }
    if (explicit.length > 0) {
      const dataPoints = points(explicit, ({ bounds, counts, count, sum }) => ({
        buckets: { boundaries: [...bounds], counts: [...counts] },
        count,
        sum,
      }));
      data.push({ ...shared, dataPointType: DataPointType.HISTOGRAM, dataPoints });
    }
    if (exponential.length > 0) {
      const dataPoints = points(exponential, ({ scale, zeros, offset, counts, count, sum }) => ({
        scale,
        zeroCount: zeros,
        positive: { offset, bucketCounts: [...counts] },
        negative: { offset: 0, bucketCounts: [] },
        count,
        sum,
      }));
      data.push({ ...shared, dataPointType: DataPointType.EXPONENTIAL_HISTOGRAM, dataPoints });
    }
    return data;
  };

  return {
    export: (metrics, span) =>
      new Promise((resolve, reject) => {
        const data = metrics.flatMap((metric) => dataOf(metric, span));
        exporter.export({ resource, scopeMetrics: [{ scope, metrics: data }] }, ({ error }) => {
          if (error) reject(error);
          else resolve();
        });
      }),
    close: () => exporter.shutdown(),
  };
}

/** In OpenTelemetry's words, by the end of the name. */
function unitOf(name: string): string {
  if (name.endsWith("_seconds") || name.endsWith("_seconds_total")) return "s";
  return name.endsWith("_bytes") ? "By" : "1";
}

/** Seconds and nanoseconds. */
function hrTime(ms: number): [number, number] {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.min(999_999_999, Math.round((ms - seconds * 1000) * 1e6))];
}
