import { describe, expect, test } from "vitest";
import { RequestHead } from "../../../src/gateway/request-head.ts";
import { readTarget } from "../../../src/gateway/route.ts";
import { readWishes, SERVER_PREFIX } from "../../../src/gateway/wishes.ts";
import { verifies } from "../../verifies.ts";

const NONE = {
  priority: 0,
  delay: null,
  ttlMs: null,
  timeoutMs: null,
  maxAttempts: null,
  tags: [],
  concurrencyKey: null,
  fairnessKey: null,
};
const DAY_MS = 86_400_000;
const NOW = Date.UTC(2027, 0, 1, 8);

const wishes = (query: string, head: Partial<RequestHead> = {}, prefix = "") =>
  readWishes(`async=true&${query}`, prefix, Object.assign(new RequestHead(), head), NOW);

verifies("terms.names", "a query may ask for each, in snake_case and camelCase", () => {
  expect(
    wishes(
      "priority=high&delay=1m30s&ttl=60&timeout=2h&max_attempts=3&concurrency_key=k%201&tag=a&tag=b%20c&tag=a&x=1",
    ),
  ).toEqual({
    priority: 600,
    delay: { ms: 90_000 },
    ttlMs: 60_000,
    timeoutMs: 7_200_000,
    maxAttempts: 3,
    tags: ["a", "b c"],
    concurrencyKey: "k 1",
    fairnessKey: null,
  });
  expect(wishes("maxAttempts=7")).toEqual({ ...NONE, maxAttempts: 7 });
  expect(wishes("concurrencyKey=7")).toEqual({ ...NONE, concurrencyKey: "7" });
  expect(wishes("delay=2027-01-31T08:00:00%2B01:00")).toEqual({
    ...NONE,
    delay: { until: Date.UTC(2027, 0, 31, 7) },
  });
  for (const query of ["", "x=1", "Priority=high", "millrace_priority=high", "tags=a", "priority%5B%5D=1"])
    expect([query, wishes(query)]).toEqual([query, null]);
});

describe("values", () => {
  test("that are allowed, to their bounds", () => {
    for (const [query, found] of [
      ["priority=low", { priority: -600 }],
      ["priority=normal", { priority: 0 }],
      ["priority=-3600", { priority: -3600 }],
      ["priority=%2B3600", { priority: 3600 }],
      ["priority=0.5", { priority: 0.5 }],
      ["delay=0", { delay: { ms: 0 } }],
      ["delay=30d", { delay: { ms: 30 * DAY_MS } }],
      ["delay=2027-01-31T08:00:00.000Z", { delay: { until: NOW + 30 * DAY_MS } }],
      ["delay=2026-12-31T23:59:59Z", { delay: { until: Date.UTC(2026, 11, 31, 23, 59, 59) } }],
      ["ttl=1ms", { ttlMs: 1 }],
      ["timeout=30d", { timeoutMs: 30 * DAY_MS }],
      ["max_attempts=100", { maxAttempts: 100 }],
      [`concurrency_key=${"x".repeat(128)}`, { concurrencyKey: "x".repeat(128) }],
      [`tag=${"x".repeat(128)}`, { tags: ["x".repeat(128)] }],
    ] as const)
      expect([query, wishes(query)]).toEqual([query, { ...NONE, ...found }]);
  });

  verifies("terms.bounds", "that are not, with an error that says what is", () => {
    const texts = {
      priority: ["", "urgent", "HIGH", "3601", "-3601", "1e3", "NaN", "Infinity", "0x10", " 1"],
      delay: [
        "",
        "soon",
        "-1",
        "31d",
        "2027-01-31",
        "2027-13-01T00:00:00Z",
        "2027-01-31T08:00:00.001Z",
        "9999-01-01T00:00:00Z",
        "1e3",
        "9".repeat(400),
      ],
      ttl: ["", "0", "-5", "30d1s", "2027-01-31T08:00:00Z"],
      timeout: ["", "0s", "1y", "721h"],
      max_attempts: ["", "0", "101", "1.5", "-1", "two"],
      concurrency_key: ["", "x".repeat(129), "a%00b"],
      tag: ["", "x".repeat(129), "a%00b", "a%0Ab"],
    };
    for (const [name, values] of Object.entries(texts))
      for (const value of values)
        expect(() => wishes(`${name}=${value}`), `${name}=${value}`).toThrow(
          new RegExp(`^${name} must be [a-z0-9]`),
        );
    expect(() => wishes("priority=1&priority=1")).toThrow("priority must be given only once.");
    expect(() => wishes("max_attempts=1&maxAttempts=1")).toThrow("maxAttempts must be given only once.");
    expect(() => wishes("tag=1&tag=2&tag=3&tag=4&tag=5&tag=6")).toThrow("tag must be given at most 5 times.");
    expect(() => wishes("priority=top")).toThrow(
      "priority must be low, normal, high, or a number of seconds from -3600 to 3600.",
    );
  });
});

verifies("terms.headers", "headers of other services ask for the same, and a parameter wins", () => {
  const head = { queuePriority: "low", requestTimeout: "2.5", cancelAfter: "1m30s" };
  expect(wishes("", head)).toEqual({ ...NONE, priority: -600, ttlMs: 2_500, timeoutMs: 90_000 });
  expect(wishes("priority=5&timeout=1s", head)).toEqual({
    ...NONE,
    priority: 5,
    ttlMs: 2_500,
    timeoutMs: 1_000,
  });
  for (const cancelAfter of ["later", "", "5m, 5m"])
    expect(() => wishes("", { cancelAfter })).toThrow(/^Cancel-After must be a duration/);
});

verifies("terms.servers", "a server's own parameters reach it, and those with the prefix do not", () => {
  const query =
    "priority=9&tag=mine&millrace_priority=high&millrace_maxAttempts=2&millrace_other=1&async=true";
  expect(readTarget(`/a?${query}`, "POST")).toEqual({
    target: "/a?priority=9&tag=mine&millrace_other=1",
    query: { isAsync: true, webhookEndpoint: null },
  });
  expect(readTarget(`/a?${query}`, "GET").target).toBe(`/a?${query}`);
  // Only the first question mark is no part of a name.
  expect(readTarget("/a?x=1&?millrace_tag=a&?async=true&%6dillrace_tag=b", "POST")).toEqual({
    target: "/a?x=1&?millrace_tag=a&?async=true",
    query: { isAsync: false, webhookEndpoint: null },
  });
  expect(readWishes(query, SERVER_PREFIX, new RequestHead(), NOW)).toEqual({
    ...NONE,
    priority: 600,
    maxAttempts: 2,
  });
});
