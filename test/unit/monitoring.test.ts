import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { DASHBOARDS, monitoringFiles } from "../../scripts/make-dashboards.ts";
import { type Metric, METRICS } from "../../src/management/metrics/table.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { verifies } from "../verifies.ts";

type Rule = { readonly alert?: string; readonly record?: string; readonly expr: string };
type Rules = { readonly groups: readonly { readonly rules: readonly Rule[] }[] };
type RuleTests = { readonly tests: readonly { readonly alert_rule_test: readonly AlertTest[] }[] };
type AlertTest = { readonly alertname: string; readonly exp_alerts?: readonly unknown[] };

const text = (file: string): string => readFileSync(path.join(REPOSITORY, file), "utf8");
const RULES = (parse(text("packaging/prometheus/alerts.yaml")) as Rules).groups.flatMap(({ rules }) => rules);
const EXPRESSIONS = [
  ...RULES.map(({ expr }) => expr),
  ...Object.values(DASHBOARDS).flatMap(({ rows }) =>
    Object.values(rows).flatMap((panels) => panels.flatMap(({ targets }) => targets.map(([expr]) => expr))),
  ),
];

test("the files that are made are what scripts/make-dashboards.ts makes", () => {
  for (const [file, made] of monitoringFiles())
    expect([file, readFileSync(file, "utf8") === made]).toEqual([file, true]);
});

test("panels and rules ask for metrics that exist, by labels that these have", () => {
  const table: Readonly<Record<string, Metric>> = METRICS;
  const uses = EXPRESSIONS.flatMap((expr) => [
    ...expr.matchAll(/\b((?:millrace|cerebrium|process)_[a-z_]+)(?:\{([^}]*)\})?/g),
  ]);
  expect(uses.length).toBeGreaterThan(100);
  for (const [, name = "", labels = ""] of uses) {
    const metric = table[name] ?? table[name.replace(/_(?:bucket|sum|count)$/, "")];
    const asked = [...labels.matchAll(/(\w+)=/g)].map(([, label]) => label);
    const known = ["instance", ...(metric?.labels ?? [])];
    expect([name, metric !== undefined, asked.filter((label) => !known.includes(label!))]).toEqual([
      name,
      true,
      [],
    ]);
  }
});

verifies("metrics.alerts", "the document has a row for each alert, and a test has each of them fire", () => {
  const alerts = RULES.flatMap(({ alert }) => alert ?? []);
  const [, section = ""] = text("docs/metrics.md").split("\n## Alerts\n");
  const rows = [...(section.split("\n## ")[0] ?? "").matchAll(/^\| `(\w+)` \| \S.* \| \S.* \|$/gm)];
  expect(rows.map(([, name = ""]) => name).toSorted()).toEqual(alerts.toSorted());
  const { tests } = parse(text("packaging/prometheus/alerts.test.yaml")) as RuleTests;
  const tried = tests.flatMap((each) => each.alert_rule_test);
  for (const wanted of [true, false]) {
    const names = tried.filter(({ exp_alerts: fires }) => (fires !== undefined) === wanted);
    const missing = alerts.filter((alert) => !names.some(({ alertname }) => alertname === alert));
    // A disk that does not fill is among those of its one test.
    expect(missing).toEqual(wanted ? [] : ["MillraceDiskFills"]);
  }
});
