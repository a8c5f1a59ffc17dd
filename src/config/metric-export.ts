import type { Problems } from "./problems.ts";
import { TELEMETRY_VARIABLES } from "./telemetry.ts";

/** How metrics are exported; the exporter itself reads further variables, as that of traces does. */
export type MetricExportSettings = {
  readonly url: string;
  readonly protocol: "http/protobuf" | "http/json";
  readonly intervalMs: number;
};

type Variable = keyof typeof TELEMETRY_VARIABLES | "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL";
type Env = Readonly<Record<string, string | undefined>>;

const LEAST_INTERVAL_MS = 1_000;
const MOST_INTERVAL_MS = 3_600_000;

/** Null if no endpoint is configured, or exporting is turned off. As the standard wants it, a bad value is only warned of. */
export function readMetricExport(env: Env, problems: Problems): MetricExportSettings | null {
  const given = (name: Variable): string | null => env[name]?.trim() || null;
  const base = given("OTEL_EXPORTER_OTLP_ENDPOINT");
  const below = base && `${base}${base.endsWith("/") ? "" : "/"}v1/metrics`;
  const url = given("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") ?? below;
  const exporter = given("OTEL_METRICS_EXPORTER") ?? "otlp";
  if (url === null || exporter === "none" || given("OTEL_SDK_DISABLED")?.toLowerCase() === "true")
    return null;
  const ignored = (name: Variable, expects: string): null => {
    problems.warn(`${name} must be ${expects}; metrics are not exported`);
    return null;
  };
  if (exporter !== "otlp") return ignored("OTEL_METRICS_EXPORTER", '"otlp" or "none"');
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ""))
    return ignored("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "an http or https address");
  const protocol =
    given("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL") ?? given("OTEL_EXPORTER_OTLP_PROTOCOL") ?? "http/protobuf";
  if (protocol !== "http/protobuf" && protocol !== "http/json")
    return ignored("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", '"http/protobuf" or "http/json"');
  return { url, protocol, intervalMs: intervalOf(given("OTEL_METRIC_EXPORT_INTERVAL"), problems) };
}

function intervalOf(text: string | null, problems: Problems): number {
  const usual = Number(TELEMETRY_VARIABLES.OTEL_METRIC_EXPORT_INTERVAL.default);
  const value = text === null ? usual : Number(text);
  if (value >= LEAST_INTERVAL_MS && value <= MOST_INTERVAL_MS) return value;
  const range = `from ${LEAST_INTERVAL_MS} to ${MOST_INTERVAL_MS}`;
  problems.warn(`OTEL_METRIC_EXPORT_INTERVAL must be a number ${range}; ${usual} is used`);
  return usual;
}
