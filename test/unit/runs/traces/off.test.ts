import { expect } from "vitest";
import { readSources } from "../../../support/source-files.ts";
import { verifies } from "../../../verifies.ts";

const METRICS = "src/management/metrics/otlp.ts";
const TRACES = "src/runs/traces/otlp.ts";

verifies(
  "traces.off",
  "OpenTelemetry's packages are loaded by two files, and these only where something is exported",
  () => {
    const sources = [...readSources(["src"], [".ts"])];
    const importing = (pattern: RegExp) =>
      sources
        .filter(([, text]) => pattern.test(text))
        .map(([path]) => path)
        .toSorted();
    // Types are gone when the code runs.
    expect(importing(/^import (?!type ).*"@opentelemetry\//m)).toEqual([]);
    expect(importing(/import\("@opentelemetry\//)).toEqual([METRICS, TRACES]);
    expect(importing(/^import (?!type ).*\/otlp\.ts"/m)).toEqual([METRICS]);
    expect(importing(/import\("\.\/otlp\.ts"\)/)).toEqual([
      "src/management/metrics/metric-export.ts",
      "src/runs/traces/tracer.ts",
    ]);
  },
);
