import { readFileSync } from "node:fs";

import { expect, test } from "vitest";

import { readAppConfig } from "../../src/config/app-config.ts";
import { APP_KEYS } from "../../src/config/app-shape.ts";
import { SETTING_GROUPS, SETTING_KEYS, envOf, flagOf } from "../../src/config/setting-keys.ts";
import type { SettingKey } from "../../src/config/readers.ts";
import { Problems } from "../../src/config/problems.ts";
import { parseToml } from "../../src/config/toml.ts";

const DOCUMENT = readFileSync(new URL("../../docs/config.md", import.meta.url), "utf8");

const settingRow = (key: SettingKey<unknown>): string =>
  row([
    code(envOf(key.name)),
    code(flagOf(key.name)),
    code(key.name),
    key.default === undefined ? "unset" : key.default === "" ? "none" : code(key.default),
    key.reader.expects,
    key.meaning,
  ]);

const appRows = APP_KEYS.map((key) =>
  row([
    code(key.path),
    key.payload === undefined ? "–" : code(key.payload),
    typeof key.default === "function"
      ? "varies"
      : key.default === undefined
        ? "unset"
        : code(JSON.stringify(key.default)),
    key.reader.expects,
    key.meaning,
  ]),
);

test("docs/config.md lists every server setting in its group, with its default, bounds and meaning, and no other", () => {
  const section = sectionOf(DOCUMENT, "## Server settings");
  for (const [group, keys] of Object.entries(SETTING_GROUPS)) {
    const documented = rowsOf(sectionOf(section, `### ${group}`));
    expect(differences(documented, Object.values(keys).map(settingRow))).toEqual([]);
  }
  const all = section.split("\n").filter((line) => line.startsWith("| `"));
  expect(all).toHaveLength(Object.keys(SETTING_KEYS).length);
});

test("docs/config.md lists every key of the app config with its default, bounds and meaning, and no other", () => {
  expect(differences(rowsOf(sectionOf(DOCUMENT, "## App configuration")), appRows)).toEqual([]);
});

test("the examples in docs/config.md are read without a problem or a warning", () => {
  const [settings, app, ...others] = [...DOCUMENT.matchAll(/```toml\n(.*?)```/gs)].map((match) => match[1]!);
  expect(others).toEqual([]);
  const read = readAppConfig({ toml: { text: app!, fileName: "millrace.toml" }, host: { cpuCount: 2 } });
  expect(read.warnings).toEqual([]);
  expect(read.config.scaling.responseGracePeriodSeconds).toBe(3600);

  const problems = new Problems();
  const table = parseToml(settings!, "example", problems) ?? {};
  const keys = Object.values<SettingKey<unknown>>(SETTING_KEYS);
  for (const [name, raw] of Object.entries(table)) {
    expect(keys.find((key) => key.name === name)?.reader.read(raw)).toBeDefined();
  }
  problems.throwIfAny("the example");
});

test("the comparison finds a row that is missing, one too many, and a wrong default", () => {
  const documented = rowsOf(sectionOf(DOCUMENT, "## App configuration"));
  expect(documented.length).toBeGreaterThan(40);
  expect(differences(documented.slice(1), appRows)).toEqual([`not in the document: ${appRows[0]}`]);

  const extra = row([code("scaling.speed"), "–", code("9"), "a number", "Goes faster."]);
  expect(differences([...documented, extra], appRows)).toEqual([`not in the code: ${extra}`]);

  const grace = documented.find((line) => line.includes("response_grace_period"))!;
  const wrong = grace.replace('"15m"', '"16m"');
  const planted = documented.map((line) => (line === grace ? wrong : line));
  expect(differences(planted, appRows)).toEqual([
    `not in the document: ${grace}`,
    `not in the code: ${wrong}`,
  ]);
});

/** The text under a heading, up to the next heading of its level. */
function sectionOf(document: string, heading: string): string {
  const [marks = ""] = heading.split(" ");
  const [, after = ""] = document.split(`${heading}\n`);
  return after.split(new RegExp(`^${marks} `, "m"))[0] ?? "";
}

/** The body rows of its table. */
function rowsOf(section: string): string[] {
  return section
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .slice(2);
}

function differences(documented: readonly string[], expected: readonly string[]): string[] {
  return [
    ...expected.filter((line) => !documented.includes(line)).map((line) => `not in the document: ${line}`),
    ...documented.filter((line) => !expected.includes(line)).map((line) => `not in the code: ${line}`),
  ];
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}

function code(text: string): string {
  return `\`${text}\``;
}
