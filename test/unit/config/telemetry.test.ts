import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { Problems } from "../../../src/config/problems.ts";
import { readTelemetry, TELEMETRY_VARIABLES } from "../../../src/config/telemetry.ts";
import { verifies } from "../../verifies.ts";

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318/" };

function read(env: Record<string, string>) {
  const problems = new Problems();
  return { settings: readTelemetry(env, problems), warnings: problems.warnings };
}

verifies("traces.export", "the standard variables say where traces go, and how", () => {
  expect(read(ENDPOINT)).toEqual({
    settings: {
      url: "http://collector:4318/v1/traces",
      protocol: "http/protobuf",
      sampling: { isParentBased: true, ratio: 1 },
      maxWaiting: 2048,
      batchSize: 512,
      delayMs: 5000,
    },
    warnings: [],
  });
  const given = {
    ...ENDPOINT,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://traces/x",
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_TRACES_SAMPLER: "traceidratio",
    OTEL_TRACES_SAMPLER_ARG: "0.1",
    OTEL_BSP_MAX_QUEUE_SIZE: "100",
    OTEL_BSP_SCHEDULE_DELAY: "10",
  };
  expect(read(given).settings).toEqual({
    url: "https://traces/x",
    protocol: "http/json",
    sampling: { isParentBased: false, ratio: 0.1 },
    maxWaiting: 100,
    batchSize: 100,
    delayMs: 10,
  });
});

verifies("traces.off", "without an endpoint, or turned off, nothing is exported", () => {
  for (const env of [
    {},
    { OTEL_EXPORTER_OTLP_ENDPOINT: " " },
    { ...ENDPOINT, OTEL_SDK_DISABLED: "TRUE" },
    { ...ENDPOINT, OTEL_TRACES_EXPORTER: "none" },
  ])
    expect(read(env)).toEqual({ settings: null, warnings: [] });
});

test("a bad value is warned of and does not stop the service", () => {
  const bad = [
    { OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" },
    { ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" },
    { ...ENDPOINT, OTEL_TRACES_EXPORTER: "zipkin" },
  ];
  for (const env of bad)
    expect(read(env)).toEqual({ settings: null, warnings: [expect.stringContaining("OTEL_")] });
  const odd = {
    ...ENDPOINT,
    OTEL_TRACES_SAMPLER: "jaeger",
    OTEL_TRACES_SAMPLER_ARG: "7",
    OTEL_BSP_SCHEDULE_DELAY: "x",
  };
  expect(read(odd).warnings).toHaveLength(3);
  expect(read(odd).settings).toEqual(read(ENDPOINT).settings);
});

test("docs/config.md lists each variable with its default and meaning, and no other", () => {
  const document = readFileSync(new URL("../../../docs/config.md", import.meta.url), "utf8");
  const rows = Object.entries(TELEMETRY_VARIABLES).map(([name, { default: usual, meaning }]) => {
    const shown: string = usual;
    return `| \`${name}\` | ${shown === "unset" ? shown : `\`${shown}\``} | ${meaning} |`;
  });
  expect(document.split("\n").filter((line) => line.startsWith("| `OTEL_"))).toEqual(rows);
});
