import { expect } from "vitest";
import { readSources } from "../../../support/source-files.ts";
import { verifies } from "../../../verifies.ts";

verifies(
  "traces.off",
  "OpenTelemetry's packages are loaded by one file, and that only where traces are exported",
  () => {
    const sources = [...readSources(["src"], [".ts"])];
    const importing = (pattern: RegExp) =>
      sources.filter(([, text]) => pattern.test(text)).map(([path]) => path);
    // Types are gone when the code runs.
    expect(importing(/^import (?!type ).*"@opentelemetry\//m)).toEqual([]);
    expect(importing(/import\("@opentelemetry\//)).toEqual(["src/runs/traces/otlp.ts"]);
    expect(importing(/^import (?!type ).*\/otlp\.ts"/m)).toEqual([]);
    expect(importing(/import\("\.\/otlp\.ts"\)/)).toEqual(["src/runs/traces/tracer.ts"]);
  },
);
