import { expect } from "vitest";
import { readMetricExport } from "../../../src/config/metric-export.ts";
import { Problems } from "../../../src/config/problems.ts";
import { verifies } from "../../verifies.ts";

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318/" };

function read(env: Record<string, string>) {
  const problems = new Problems();
  return { settings: readMetricExport(env, problems), warnings: problems.warnings };
}

verifies("metrics.otlp", "the standard variables say where metrics go, and how often", () => {
  expect(read(ENDPOINT)).toEqual({
    settings: { url: "http://collector:4318/v1/metrics", protocol: "http/protobuf", intervalMs: 60_000 },
    warnings: [],
  });
  const given = {
    ...ENDPOINT,
    OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "https://metrics/x",
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
    OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: "http/json",
    OTEL_METRIC_EXPORT_INTERVAL: "5000",
  };
  expect(read(given)).toEqual({
    settings: { url: "https://metrics/x", protocol: "http/json", intervalMs: 5_000 },
    warnings: [],
  });
});

verifies("metrics.otlp", "nothing is exported unless it is asked for, and a bad value is warned of", () => {
  for (const off of [{ OTEL_METRICS_EXPORTER: "none" }, { OTEL_SDK_DISABLED: "TRUE" }])
    expect(read({ ...ENDPOINT, ...off })).toEqual({ settings: null, warnings: [] });
  expect(read({})).toEqual({ settings: null, warnings: [] });
  for (const [name, value] of Object.entries({
    OTEL_METRICS_EXPORTER: "prometheus",
    OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "ftp://collector",
    OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: "grpc",
  })) {
    const { settings, warnings } = read({ ...ENDPOINT, [name]: value });
    expect([settings, warnings]).toEqual([null, [expect.stringContaining(name)]]);
  }
  const { settings, warnings } = read({ ...ENDPOINT, OTEL_METRIC_EXPORT_INTERVAL: "10" });
  expect([settings?.intervalMs, warnings]).toEqual([60_000, [expect.stringContaining("INTERVAL")]]);
});
