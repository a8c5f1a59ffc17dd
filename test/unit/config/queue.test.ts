import { expect } from "vitest";
import { readAppConfig } from "../../../src/config/app-config.ts";
import { ConfigError } from "../../../src/config/problems.ts";
import { verifies } from "../../verifies.ts";

function read(text: string) {
  return readAppConfig({ toml: { text, fileName: "millrace.toml" }, host: { cpuCount: 4 } });
}

verifies("queue.config", "an empty table limits nothing, and no table is none", () => {
  expect(read("").config).not.toHaveProperty("queue");
  expect(read("[queue]\n").config.queue).toEqual({
    concurrencyLimit: null,
    concurrencyKeyLimit: null,
    rateLimit: null,
    concurrencyKeyRateLimit: null,
    maxBacklog: null,
  });
});

verifies("queue.config", "each of its values is read, also below [cerebrium]", () => {
  const table = `concurrency_limit = 20
concurrency_key_limit = 1
rate_limit = "100/1m"
concurrency_key_rate_limit = "10/1h30m"
max_backlog = 10000000
`;
  for (const text of [`[queue]\n${table}`, `[cerebrium.queue]\n${table}`])
    expect(read(text).config.queue).toEqual({
      concurrencyLimit: 20,
      concurrencyKeyLimit: 1,
      rateLimit: { count: 100, periodSeconds: 60 },
      concurrencyKeyRateLimit: { count: 10, periodSeconds: 5400 },
      maxBacklog: 10_000_000,
    });
});

verifies("queue.config", "every problem of it is named", () => {
  const bad = {
    concurrency_limit: ["0", "10001", "1.5", '"many"'],
    concurrency_key_limit: ["0", "10001", "true"],
    rate_limit: [
      "100",
      '"100"',
      '"0/1m"',
      '"1000001/1m"',
      '"5/0.5s"',
      '"5/25h"',
      '"5/1m/1m"',
      '"-1/1m"',
      "[5]",
    ],
    concurrency_key_rate_limit: ['"/1m"', '"5/"', '"1e3/1m"'],
    max_backlog: ["0", "10000001"],
  };
  for (const [name, values] of Object.entries(bad))
    for (const value of values) {
      const reading = () => read(`[queue]\n${name} = ${value}\n`);
      expect(reading, `${name} = ${value}`).toThrow(ConfigError);
      expect(reading).toThrow(`queue.${name} must be`);
    }
  expect(() => read("queue = 5\n")).toThrow("queue must be a table");
  expect(read("[queue]\nconcurency_limit = 3\n").warnings.join()).toContain("queue.concurrency_limit");
});
