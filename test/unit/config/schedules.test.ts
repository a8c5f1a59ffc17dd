import { describe, expect, test } from "vitest";
import { readAppConfig } from "../../../src/config/app-config.ts";
import { APP_KEYS } from "../../../src/config/app-shape.ts";
import { ConfigError } from "../../../src/config/problems.ts";
import { verifies } from "../../verifies.ts";

const HOST = { cpuCount: 4 };

const EVERY_KEY = `
[[schedules]]
name = "nightly"
cron = "0 30 2 * * MON-FRI"
timezone = "Europe/Berlin"
function = "report"
input = { days = 1, nested = { list = [1, "two", true] }, since = 2026-01-02T03:04:05Z }
overlap = "queue"
catch_up = "all"
jitter = "5m"
[[schedules]]
cron = "*/5 * * * *"
`;

function readToml(text: string) {
  return readAppConfig({ toml: { text, fileName: "millrace.toml" }, host: HOST });
}

function problemsOf(text: string): readonly string[] {
  try {
    readToml(text);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

verifies("schedules.config", "every key of [[schedules]] is read, in both forms alike", () => {
  const { config, warnings } = readToml(EVERY_KEY);
  expect(warnings).toEqual([]);
  expect(config.schedules).toEqual([
    {
      name: "nightly",
      cron: "0 30 2 * * MON-FRI",
      timezone: "Europe/Berlin",
      functionName: "report",
      input: { days: 1, nested: { list: [1, "two", true] }, since: "2026-01-02T03:04:05.000Z" },
      overlap: "queue",
      catchUp: "all",
      jitterSeconds: 300,
    },
    {
      name: "run",
      cron: "*/5 * * * *",
      timezone: "UTC",
      functionName: "run",
      input: {},
      overlap: "skip",
      catchUp: "none",
      jitterSeconds: 0,
    },
  ]);
  expect(readToml(EVERY_KEY.replaceAll("[[", "[[cerebrium.")).config).toEqual(config);
  const payload = { cerebrium_toml: EVERY_KEY };
  expect(readAppConfig({ payload, host: HOST }).config.schedules).toEqual(config.schedules);
  const named = new Set([...EVERY_KEY.matchAll(/^([a-z_]+) = /gm)].map((match) => match[1]));
  for (const { path } of APP_KEYS.filter((key) => key.path.startsWith("schedules.")))
    expect(named).toContain(path.slice(path.lastIndexOf(".") + 1));
});

verifies("schedules.config", "an app without schedules has no list of them", () => {
  for (const text of ["", "schedules = []"]) expect(readToml(text).config).not.toHaveProperty("schedules");
});

describe("faults name their key", () => {
  const CRON = 'cron = "0 0 * * *"';
  test.each([
    ["cron = 5", "schedules[0].cron must be a cron expression"],
    ["", "schedules[0].cron must be a cron expression"],
    ['cron = "* * * *"', "schedules[0].cron must be"],
    ['cron = "0 0 30 2 *"', "schedules[0].cron must be"],
    [`${CRON}\ntimezone = "Mars/Olympus"`, "schedules[0].timezone must be the name of a time zone"],
    [`${CRON}\nfunction = "_private"`, "schedules[0].function must be the name of a function"],
    [`${CRON}\nfunction = "setup"`, "schedules[0].function cannot be setup"],
    [`${CRON}\ninput = [1]`, "schedules[0].input must be a table"],
    [`${CRON}\ninput = { a = nan }`, "schedules[0].input must be a table"],
    [`${CRON}\ninput = { a = 99999999999999999999 }`, ""],
    [`${CRON}\noverlap = "allow"`, 'schedules[0].overlap must be one of "skip"'],
    [`${CRON}\ncatch_up = "some"`, 'schedules[0].catch_up must be one of "none"'],
    [`${CRON}\njitter = "2h"`, "schedules[0].jitter must be a duration from 0s to 1h"],
    [`${CRON}\nname = "a/b"`, "schedules[0].name must be"],
    [`${CRON}\n[[schedules]]\n${CRON}`, "schedules[1] and schedules[0] are both named run"],
    [`${CRON}\n[runtime.custom]\nentrypoint = ["a"]\nport = 80`, "schedules calls functions of main.py"],
  ])("%s", (text, problem) => {
    const problems = problemsOf(`[[schedules]]\n${text}`);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(problem);
  });

  test("what is no list of tables, and too long a list", () => {
    expect(problemsOf('[schedules]\ncron = "0 0 * * *"')[0]).toContain("schedules must be a list of tables");
    expect(problemsOf("schedules = [1]")[0]).toContain("schedules[0] must be a table");
    const many = Array.from({ length: 101 }, (_, i) => `[[schedules]]\nname = "s${i}"\n${CRON}\n`).join("");
    expect(problemsOf(many)).toEqual(["schedules has 101 schedules, but an app can have at most 100"]);
  });

  test("an unknown key is a warning", () => {
    expect(readToml(`[[schedules]]\n${CRON}\ntimezon = "UTC"`).warnings).toEqual([
      '"schedules[0].timezon" is not a known key; did you mean schedules[0].timezone?',
    ]);
  });
});
