import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, onTestFinished, test } from "vitest";

import { WALL_KEYS } from "../../../src/config/service-keys.ts";
import { ConfigError } from "../../../src/config/problems.ts";
import { readSettings } from "../../../src/config/settings.ts";
import { verifies } from "../../verifies.ts";

verifies(
  "settings.isolation",
  "isolation is auto by default and takes each of its levels and no other",
  () => {
    expect(readSettings({ flags: {}, env: {} }).settings.isolation).toBe("auto");
    for (const level of ["auto", "none", "process", "landlock", "userns", "uid"]) {
      expect(readSettings({ flags: {}, env: { MILLRACE_ISOLATION: level } }).settings.isolation).toBe(level);
    }
    for (const level of ["Auto", "docker", "uid,userns"])
      expect(refused("MILLRACE_ISOLATION", level)).toBe(true);
  },
);

verifies("settings.webhook-allow", "webhook_allow takes a list of CIDRs and refuses anything else", () => {
  const allowed = (text: string): readonly string[] =>
    readSettings({ flags: {}, env: { MILLRACE_WEBHOOK_ALLOW: text } }).settings.webhookAllow;
  expect(allowed("")).toEqual([]);
  expect(allowed("10.0.0.0/8, fd00::/8,127.0.0.1")).toEqual(["10.0.0.0/8", "fd00::/8", "127.0.0.1/32"]);
  for (const text of ["10.0.0.0/33", "10.0.0.0/8,example.com", "all", "10.0.0.0-10.0.0.9"]) {
    expect(refused("MILLRACE_WEBHOOK_ALLOW", text)).toBe(true);
  }
});

test("a command's own default yields to a flag, a variable and a file alike", () => {
  const dir = mkdtempSync(join(tmpdir(), "millrace-settings-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const config = join(dir, "millrace.toml");
  writeFileSync(config, 'log_level = "info"');
  const level = (flags: object, env: Record<string, string>): string =>
    readSettings({ flags: { ...flags }, env, defaults: { log_level: "warn" } }).settings.logLevel;
  expect(level({}, {})).toBe("warn");
  expect(level({ config }, {})).toBe("info");
  expect(level({}, { MILLRACE_LOG_LEVEL: "debug" })).toBe("debug");
  expect(level({ logLevel: "error" }, { MILLRACE_LOG_LEVEL: "debug" })).toBe("error");
});

function refused(name: string, value: string): boolean {
  try {
    readSettings({ flags: {}, env: { [name]: value } });
    return false;
  } catch (error) {
    return error instanceof ConfigError && error.problems.every((problem) => problem.startsWith(name));
  }
}

test("an empty variable counts as unset", () => {
  expect(readSettings({ flags: {}, env: { MILLRACE_API_PORT: "", MILLRACE_DATABASE_URL: "" } })).toEqual(
    readSettings({ flags: {}, env: {} }),
  );
});

test("a range of ids is two numbers, the lower one first, above those of the system", () => {
  const { read } = WALL_KEYS.uidRange.reader;
  expect(read("400000-465535")).toEqual({ first: 400_000, last: 465_535 });
  expect(read("1000-1000")).toEqual({ first: 1000, last: 1000 });
  const wrong = [
    "",
    "5",
    "1000",
    "999-2000",
    "2000-1000",
    "1000-4294967295",
    "1e3-2000",
    "1000 - 2000",
    "a-b",
  ];
  for (const text of wrong) expect([text, read(text)]).toEqual([text, undefined]);
});
