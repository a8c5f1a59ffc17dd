import { expect } from "vitest";
import { readAppConfig } from "../../../src/config/app-config.ts";
import { ConfigError } from "../../../src/config/problems.ts";
import { retryRules } from "../../../src/model/retry.ts";
import { verifies } from "../../verifies.ts";

function read(text: string) {
  return readAppConfig({ toml: { text, fileName: "millrace.toml" }, host: { cpuCount: 4 } });
}

verifies("retry.config", "an empty table has the usual values, and no table is none", () => {
  expect(read("").config).not.toHaveProperty("retry");
  expect(read("[retry]\n").config.retry).toEqual({
    maxAttempts: null,
    initialDelaySeconds: 1,
    backoff: 2,
    maxDelaySeconds: 3600,
    jitter: 0.1,
    on: ["crash"],
  });
});

verifies("retry.config", "its max_attempts comes before that of [scaling]", () => {
  const most = (text: string): number => retryRules(read(text).config).maxAttempts;
  expect(most("")).toBe(2);
  expect(most("[scaling]\nmax_attempts = 3\n")).toBe(3);
  expect(most("[scaling]\nmax_attempts = 3\n[retry]\n")).toBe(3);
  expect(most("[scaling]\nmax_attempts = 3\n[retry]\nmax_attempts = 1\n")).toBe(1);
});

verifies("retry.config", "every problem of it is named", () => {
  const text = `[retry]
max_attempts = 101
initial_delay = "25h"
backoff = 0.5
max_delay = -1
jitter = 2
on = ["crash", "not a name"]
`;
  const names = ["max_attempts", "initial_delay", "backoff", "max_delay", "jitter", "on"];
  try {
    read(text);
    expect.unreachable();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const name of names) expect(error.message).toContain(`retry.${name}`);
  }
  expect(read("[retry]\nmax_atempts = 3\n").warnings.join()).toContain("retry.max_attempts");
});
