import { expect, test } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { Client } from "./client.ts";

// Each call takes a while, so that the machine is not busy with thousands of them.
const HELLO = `
import time


def run(name: str = "world"):
    time.sleep(0.02)
    return name
`;
const ONCE = `
import time

calls = []


def run():
    calls.append(1)
    if len(calls) > 1:
        time.sleep(0.02)
        raise ValueError("no more")
`;

const shared = sharedService({
  hello: { main: HELLO, toml: "[scaling]\nreplica_concurrency = 4\n" },
  once: { main: ONCE, toml: "[scaling]\nmax_replicas = 1\n" },
});

test("bench calls the function again and again, and tells how often, calls per second and latencies", async () => {
  const { service, apps } = shared();
  const client = new Client(shared());
  const figures = await client.json("bench", "--seconds", "1", "--connections", "4");
  expect(figures).toMatchObject({ app: "hello", connections: 4, failures: 0 });
  // And the one before the clock runs.
  await service.settle();
  const runs = await service.store.runs.count({ appNumber: apps.get("hello")!.app.number });
  expect(figures.calls).toBe(runs - 1);
  // The rate is a whole number, and the time it is of has two digits.
  const rate = figures.calls / figures.seconds;
  expect(Math.abs(figures.calls_per_second - rate)).toBeLessThanOrEqual(0.5 + 0.01 * rate);
  expect(figures.p50_ms).toBeGreaterThan(0);
  expect(figures.p99_ms).toBeGreaterThanOrEqual(figures.p50_ms);
  const text = await client.ok("bench", "--seconds", "1", "--connections", "1", "--data", '{"name":"Ada"}');
  expect(text).toMatch(
    /^http\S+\/hello\/run\ncalls\/s +\d+ .*\np50 +\S+ ms\np99 +\S+ ms\nfailures +0\nclient CPU/,
  );
});

test("calls that fail are counted and are no success; wrong counts and unknown benches are refused", async () => {
  const client = new Client(shared());
  const failing = await client.run(
    "bench",
    "--app",
    "once",
    "--seconds",
    "1",
    "--connections",
    "1",
    "--json",
  );
  const { calls, failures } = JSON.parse(failing.stdout) as { calls: number; failures: number };
  expect([failing.code, failures]).toEqual([1, calls]);
  for (const args of [["--seconds", "0"], ["--connections", "many"], ["nosuch"]]) {
    expect([args, (await client.run("bench", ...args)).code]).toEqual([args, 2]);
  }
});
