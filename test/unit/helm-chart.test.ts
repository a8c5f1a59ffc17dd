import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { parse } from "yaml";
import { CHART, MANIFESTS, chartDigest } from "../../scripts/render-manifests.ts";
import { readSettings } from "../../src/config/settings.ts";
import { describePermission, PERMISSIONS } from "../../src/engines/kubernetes/api.ts";
import { chartFile, chartSchema, chartValues } from "../support/helm-chart.ts";
import { grantedBy, type Rule } from "../support/kubernetes/granted.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { verifies } from "../verifies.ts";

const text = (file: string): string => readFileSync(path.join(REPOSITORY, file), "utf8");
const templates = globSync("templates/*", { cwd: CHART }).map(chartFile);
const values = chartValues();

verifies("helm.values", "the document has a row for each value, with its default", () => {
  const [, table = ""] = text("docs/helm.md").split("\n## Values\n");
  const rows = [...table.matchAll(/^\| `([\w.]+)` \| (\S.*?) \| /gm)].map(([, name, shown]) => [name, shown]);
  expect(rows).toEqual([...values].map(([name, value]) => [name, shownAs(value)]));
});

/** As the document writes it. */
function shownAs(value: unknown): string {
  if (value === "") return "unset";
  if (typeof value !== "object") return `\`${value as string | number | boolean}\``;
  const entries = Object.entries(value ?? {});
  return entries.length === 0
    ? "none"
    : `\`${entries.map(([name, each]) => `${name}: ${within(each)}`).join(", ")}\``;
}

function within(value: unknown): string {
  if (Array.isArray(value)) return `[${value.join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value).replaceAll('"', "");
  return `{${Object.entries(value ?? {})
    .map(([name, each]) => `${name}: ${within(each)}`)
    .join(", ")}}`;
}

verifies("helm.values", "values.yaml says in a comment what each value means", () => {
  const lines = chartFile("values.yaml").split("\n");
  const path: string[] = [];
  const said = lines.flatMap((line, index) => {
    const [, indent = "", name] = /^( *)(\w+):/.exec(line) ?? [];
    if (name === undefined) return [];
    path.splice(indent.length / 2, path.length, name);
    return lines[index - 1]?.startsWith(`${indent}# `) ? [path.join(".")] : [];
  });
  // Of resources, each part is one; their own parts need no words.
  expect([...values.keys()].filter((name) => !said.includes(name))).toEqual([]);
});

verifies(
  "helm.values",
  "the schema refuses what values.yaml does not have, and templates use all of it",
  () => {
    expect([...values].filter(([, value]) => value === undefined)).toEqual([]);
    const names = new Set(values.keys());
    const known = (given: object, above = ""): string[] =>
      Object.entries(given).flatMap(([name, value]) =>
        names.has(above + name) ? [above + name] : known(value as object, `${above}${name}.`),
      );
    expect(known(parse(chartFile("values.yaml")) as object).toSorted()).toEqual([...names].toSorted());
    const open = (schema: ReturnType<typeof chartSchema>): boolean =>
      schema.properties !== undefined &&
      (schema["additionalProperties"] !== false || Object.values(schema.properties).some(open));
    expect(open(chartSchema())).toBe(false);
    const used = new Set(
      templates.flatMap((each) => [...each.matchAll(/\.Values\.([\w.]+)/g)].map(([, name = ""]) => name)),
    );
    const isUsed = (name: string): boolean => used.has(name) || used.has(name.split(".")[0] ?? "");
    expect([...names].filter((name) => !isUsed(name))).toEqual([]);
    const isKnown = (name: string): boolean =>
      names.has(name) || [...names].some((each) => each.startsWith(`${name}.`));
    expect([...used].filter((name) => !isKnown(name))).toEqual([]);
  },
);

verifies("helm.values", "settings that the chart makes are real ones, and are not for `config`", () => {
  const known = text("docs/config.md");
  const schema = chartSchema() as unknown as {
    properties: { config: { propertyNames: { not: { enum: string[] } } } };
  };
  const { not } = schema.properties.config.propertyNames;
  const made = chartFile("templates/deployment.yaml").matchAll(/name: (MILLRACE_\w+)$/gm);
  for (const [, name = ""] of made) expect(not.enum).toContain(name);
  for (const [name] of [...templates, not.enum.join(" ")].join("\n").matchAll(/MILLRACE_[A-Z_]+/g))
    expect(known).toContain(`\`${name}\``);
  const { settings } = readSettings({ flags: {}, env: {} });
  expect(values.get("shutdownGraceSeconds")).toBe(settings.shutdownGraceMs / 1_000);
});

verifies("helm.values", "chart and service are of one release, and have the same user", () => {
  const { version, appVersion } = parse(chartFile("Chart.yaml")) as Record<string, string>;
  const own = JSON.parse(text("package.json")) as { version: string };
  expect([version, appVersion]).toEqual([own.version, own.version]);
  expect(text("docs/helm.md")).toContain(`docker build -t REGISTRY/millrace:${own.version} .`);
  expect(text("Dockerfile")).toContain("--uid 10001 ");
  expect(values.get("podSecurityContext")).toMatchObject({ runAsUser: 10_001, runAsGroup: 10_001 });
});

verifies("kubernetes.role", "the chart's role has the permissions that are used, and no other", () => {
  const [, rules = ""] = /^rules:\n((?: .*\n)+)/m.exec(chartFile("templates/role.yaml")) ?? [];
  expect(grantedBy(parse(rules) as Rule[])).toEqual(PERMISSIONS.map(describePermission).toSorted());
});

verifies("helm.renders", "the manifests were made of the chart as it is", () => {
  const [, made] = /^# chart: (\w+)$/m.exec(readFileSync(MANIFESTS, "utf8")) ?? [];
  expect(`${made}: run scripts/render-manifests.ts`).toBe(
    `${chartDigest()}: run scripts/render-manifests.ts`,
  );
});
