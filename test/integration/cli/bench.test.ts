import { expect, test } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { Client } from "./client.ts";

const shared = sharedService({
  hello: { main: 'def run(name: str = "world"):\n    return name\n' },
  once: {
    main: "calls = []\n\n\ndef run():\n    calls.append(1)\n    if len(calls) > 1:\n        raise ValueError('no more')\n",
    toml: "[scaling]\nmax_replicas = 1\n",
  },
});

test("bench calls the function for as long as it is told, and tells calls per second and latencies", async () => {
  const client = new Client(shared());
  const figures = await client.json("bench", "--seconds", "1", "--connections", "4");
  expect(figures).toMatchObject({ app: "hello", connections: 4, failures: 0 });
  expect(figures.seconds).toBeGreaterThanOrEqual(1);
  // Both are rounded.
  expect(Math.abs(figures.calls_per_second / (figures.calls / figures.seconds) - 1)).toBeLessThan(0.05);
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
