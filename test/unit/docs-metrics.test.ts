import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { type Metric, METRICS } from "../../src/management/metrics/table.ts";
import { verifies } from "../verifies.ts";

const DOCUMENT = readFileSync(new URL("../../docs/metrics.md", import.meta.url), "utf8");

const code = (text: string): string => `\`${text}\``;

const EXPECTED = Object.entries<Metric>(METRICS).map(
  ([name, { kind, labels, help }]) =>
    `| ${code(name)} | ${kind} | ${labels.length === 0 ? "–" : labels.map(code).join(", ")} | ${help} |`,
);

/** The rows of the first table. */
function documented(document: string): string[] {
  const table = document.split("\n\n").find((part) => part.startsWith("| name |")) ?? "";
  return table.trim().split("\n").slice(2);
}

verifies(
  "operations.metrics.documented",
  "docs/metrics.md lists every metric with its kind, labels and meaning, and no other",
  () => {
    expect(documented(DOCUMENT)).toEqual(EXPECTED);
  },
);

test("names follow Prometheus: units at the end, and _total on what only grows", () => {
  for (const [name, { kind, help }] of Object.entries<Metric>(METRICS)) {
    expect([name, name.endsWith("_total")]).toEqual([name, kind === "counter"]);
    expect(name).toMatch(/^(?:millrace|cerebrium|process)(?:_[a-z]+)+$/);
    expect(help).toMatch(/^[A-Z].*\.$/);
  }
});

test("every metric that the document speaks of exists", () => {
  const named = [...DOCUMENT.matchAll(/`(?:rate\()?((?:millrace|cerebrium|process)_[a-z_]*[a-z])/g)].map(
    ([, name = ""]) => name,
  );
  expect(named.length).toBeGreaterThan(Object.keys(METRICS).length);
  expect(named.filter((name) => !(name in METRICS))).toEqual([]);
});

test("a row that is missing is noticed", () => {
  const without = DOCUMENT.split("\n").filter((line) => !line.includes("| `millrace_replicas` |"));
  expect(documented(without.join("\n"))).not.toEqual(EXPECTED);
});
