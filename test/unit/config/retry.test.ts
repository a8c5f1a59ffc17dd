import { expect } from "vitest";
import { readAppConfig } from "../../../src/config/app-config.ts";
import { ConfigError } from "../../../src/config/problems.ts";
import { maxAttempts } from "../../../src/model/retry.ts";
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
  const most = (text: string): number => maxAttempts(read(text).config);
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
  const late = (text: string) => () => read(`[retry]\ninitial_delay = "2h"\n${text}`);
  expect(late("")).toThrow('retry.initial_delay must be at most retry.max_delay, which is 3600 s, got "2h"');
  expect(late('max_delay = "2h"\n')).not.toThrow();
});

verifies("retry.config", "a value of another type is a problem, never a rule", () => {
  const bad = [
    "retry = 5\n",
    'retry = "crash"\n',
    "[[retry]]\nmax_attempts = 3\n",
    "[retry]\nmax_attempts = 0\n",
    "[retry]\nmax_attempts = 2.5\n",
    "[retry]\nmax_attempts = nan\n",
    "[retry]\nbackoff = nan\n",
    "[retry]\nbackoff = inf\n",
    "[retry]\njitter = -0.1\n",
    "[retry]\njitter = nan\n",
    "[retry]\njitter = true\n",
    "[retry]\ninitial_delay = nan\n",
    '[retry]\ninitial_delay = "soon"\n',
    "[retry]\nmax_delay = [1]\n",
    "[retry]\non = 5\n",
    '[retry]\non = "crash"\n',
    "[retry]\non = [5]\n",
    '[retry]\non = [["crash"]]\n',
    '[retry]\non = [""]\n',
    '[retry]\non = ["a b"]\n',
    '[retry]\non = ["' + "x".repeat(300) + '"]\n',
    `[retry]\non = [${Array(51).fill('"crash"').join(",")}]\n`,
  ];
  const taken = bad.filter((text) => {
    try {
      return Boolean(read(text));
    } catch (error) {
      return !(error instanceof ConfigError);
    }
  });
  expect(taken).toEqual([]);
  expect(read("[retry]\non = []\nmax_attempts = 100\nbackoff = 10\njitter = 1\n").config.retry).toMatchObject(
    {
      on: [],
      maxAttempts: 100,
    },
  );
});
