import type { Problems } from "./problems.ts";
import { SAMPLERS, type SamplerName, type Sampling, samplingOf } from "../model/sampling.ts";

/**
 * How traces are exported. The exporter itself reads further variables: `OTEL_EXPORTER_OTLP_HEADERS`, `…_TIMEOUT`,
 * `…_COMPRESSION` and those of certificates. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` name the service.
 */
export type TraceSettings = {
  readonly url: string;
  readonly protocol: "http/protobuf" | "http/json";
  readonly sampling: Sampling;
  /** Spans that may wait for their export, and how many are sent at once, after how long. */
  readonly maxWaiting: number;
  readonly batchSize: number;
  readonly delayMs: number;
};

/** A variable of OpenTelemetry, its default and its meaning. */
export const TELEMETRY_VARIABLES = {
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    default: "unset",
    meaning:
      "Where an OpenTelemetry collector listens, such as `http://collector:4318`. If unset, nothing is exported.",
  },
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: {
    default: "unset",
    meaning: "The whole address for traces, such as `http://collector:4318/v1/traces`, instead.",
  },
  OTEL_EXPORTER_OTLP_PROTOCOL: {
    default: "http/protobuf",
    meaning: "`http/protobuf` or `http/json`. `…_TRACES_PROTOCOL` and `…_METRICS_PROTOCOL` win.",
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    default: "unset",
    meaning: "Headers of each export, such as `authorization=Bearer%20…`. `…_TRACES_HEADERS` wins.",
  },
  OTEL_EXPORTER_OTLP_TIMEOUT: {
    default: "10000",
    meaning: "Milliseconds that an export may take. `…_TRACES_TIMEOUT` wins.",
  },
  OTEL_EXPORTER_OTLP_COMPRESSION: {
    default: "none",
    meaning: "`none` or `gzip`. `…_TRACES_COMPRESSION` wins.",
  },
  OTEL_EXPORTER_OTLP_CERTIFICATE: {
    default: "unset",
    meaning:
      "A file with the authority of the collector's certificate. `…_CLIENT_CERTIFICATE` and `…_CLIENT_KEY` are the service's own.",
  },
  OTEL_TRACES_SAMPLER: {
    default: "parentbased_always_on",
    meaning: `Which traces are recorded: ${SAMPLERS.map((name) => `\`${name}\``).join(", ")}.`,
  },
  OTEL_TRACES_SAMPLER_ARG: {
    default: "1",
    meaning: "The part of all traces that samplers with a ratio record, from 0 to 1.",
  },
  OTEL_SERVICE_NAME: { default: "millrace", meaning: "The name of the service in its traces." },
  OTEL_RESOURCE_ATTRIBUTES: {
    default: "unset",
    meaning: "Further attributes of the service, such as `deployment.environment.name=production`.",
  },
  OTEL_BSP_MAX_QUEUE_SIZE: {
    default: "2048",
    meaning: "Spans that may wait for their export. Further ones are dropped, and counted.",
  },
  OTEL_BSP_MAX_EXPORT_BATCH_SIZE: { default: "512", meaning: "Spans of one export." },
  OTEL_BSP_SCHEDULE_DELAY: { default: "5000", meaning: "Milliseconds after which fewer are exported, too." },
  OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: {
    default: "unset",
    meaning: "The whole address for metrics, such as `http://collector:4318/v1/metrics`, instead.",
  },
  OTEL_METRIC_EXPORT_INTERVAL: {
    default: "60000",
    meaning: "Milliseconds from one export of metrics to the next, from 1000 to 3600000.",
  },
  OTEL_METRICS_EXPORTER: { default: "otlp", meaning: "`none` exports no metrics." },
  OTEL_TRACES_EXPORTER: { default: "otlp", meaning: "`none` exports no traces." },
  OTEL_SDK_DISABLED: { default: "false", meaning: "`true` exports nothing." },
} as const;

type Variable = keyof typeof TELEMETRY_VARIABLES | "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
type Env = Readonly<Record<string, string | undefined>>;

const MAX_SPANS = 1_000_000;
const MAX_DELAY_MS = 3_600_000;

/** Null if no endpoint is configured, or exporting is turned off. As the standard wants it, a bad value is only warned of. */
export function readTelemetry(env: Env, problems: Problems): TraceSettings | null {
  const given = (name: Variable): string | null => env[name]?.trim() || null;
  const base = given("OTEL_EXPORTER_OTLP_ENDPOINT");
  const below = base && `${base}${base.endsWith("/") ? "" : "/"}v1/traces`;
  const url = given("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") ?? below;
  const exporter = given("OTEL_TRACES_EXPORTER") ?? "otlp";
  if (url === null || exporter === "none" || given("OTEL_SDK_DISABLED")?.toLowerCase() === "true")
    return null;
  const ignored = (name: Variable, expects: string): null => {
    problems.warn(`${name} must be ${expects}; traces are not exported`);
    return null;
  };
  if (exporter !== "otlp") return ignored("OTEL_TRACES_EXPORTER", '"otlp" or "none"');
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ""))
    return ignored("OTEL_EXPORTER_OTLP_ENDPOINT", "an http or https address");
  const protocol =
    given("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") ?? given("OTEL_EXPORTER_OTLP_PROTOCOL") ?? "http/protobuf";
  if (protocol !== "http/protobuf" && protocol !== "http/json")
    return ignored("OTEL_EXPORTER_OTLP_PROTOCOL", '"http/protobuf" or "http/json"');
  const number = (name: keyof typeof TELEMETRY_VARIABLES, min: number, max: number): number => {
    const usual = Number(TELEMETRY_VARIABLES[name].default);
    const text = given(name);
    const value = text === null ? usual : Number(text);
    if (value >= min && value <= max) return value;
    problems.warn(`${name} must be a number from ${min} to ${max}; ${usual} is used`);
    return usual;
  };
  const maxWaiting = Math.floor(number("OTEL_BSP_MAX_QUEUE_SIZE", 1, MAX_SPANS));
  const batchSize = Math.floor(number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1, MAX_SPANS));
  const sampler = readSampler(given("OTEL_TRACES_SAMPLER"), problems);
  return {
    url,
    protocol,
    sampling: samplingOf(sampler, number("OTEL_TRACES_SAMPLER_ARG", 0, 1)),
    maxWaiting,
    batchSize: Math.min(batchSize, maxWaiting),
    delayMs: number("OTEL_BSP_SCHEDULE_DELAY", 0, MAX_DELAY_MS),
  };
}

function readSampler(given: string | null, problems: Problems): SamplerName {
  const usual = TELEMETRY_VARIABLES.OTEL_TRACES_SAMPLER.default;
  const known = SAMPLERS.find((name) => name === (given ?? usual));
  if (known) return known;
  problems.warn(`OTEL_TRACES_SAMPLER must be one of ${SAMPLERS.join(", ")}; ${usual} is used`);
  return usual;
}
