import { expect } from "vitest";
import { SkippingClock } from "../../support/clocks.ts";
import { HOLDING_APP } from "../../support/holding-app.ts";
import { testPool, type TestPool } from "../../support/pool.ts";
import { isAlive } from "../../support/process-tree.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `${HOLDING_APP}
import threading

NOW = {"running": 0, "peak": 0}
LOCK = threading.Lock()

def peak():
    with LOCK:
        NOW["running"] += 1
        NOW["peak"] = max(NOW["peak"], NOW["running"])
    time.sleep(0.01)
    with LOCK:
        NOW["running"] -= 1
    return NOW["peak"]

def leave_thread():
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return os.getpid()
`;

/** So many calls that each keep a slot until the test leaves the file `go`. */
function holdAll(test: TestPool, count: number): Promise<unknown>[] {
  return Array.from({ length: count }, () => test.value("hold", {}));
}

/** The cooldown of the tests below, in milliseconds: longer than any of them takes. */
const COOLDOWN_MS = 600_000;
const COOLDOWN = `cooldown = ${COOLDOWN_MS / 1000}`;

verifies(
  "lifecycle.scale-up",
  "calls start a replica each as needed, and no more than max_replicas",
  async () => {
    const test = await testPool({ main: MAIN, toml: "[scaling]\nmax_replicas = 3" });
    expect(test.pool.replicas.size).toBe(0);
    const first = holdAll(test, 1);
    await until("the first call has begun", () => test.ready.length === 1);
    expect(test.pool.replicas.size).toBe(1);
    const others = holdAll(test, 6);
    await until("three replicas are ready", () => test.ready.length === 3);
    expect(test.pool.replicas.size).toBe(3);
    expect(test.pool.slots.waiting).toBe(4);
    test.leave("go");
    const pids = await Promise.all([...first, ...others]);
    expect(new Set(pids).size).toBe(3);
  },
);

verifies(
  ["lifecycle.cold-start", "errors.busy.waits"],
  "calls that come before the import is over wait for it and are answered",
  async () => {
    const main = `import os, time\nwhile not os.path.exists("imported"): time.sleep(0.005)\n${MAIN}`;
    const test = await testPool({ main, toml: "[scaling]\nmax_replicas = 2" });
    const calls = Array.from({ length: 20 }, () => test.value("run", {}));
    await until("they wait for a replica that starts", () => test.pool.replicas.size > 0);
    expect([test.pool.slots.waiting, test.ready]).toEqual([20, []]);
    test.leave("imported");
    const values = await Promise.all(calls);
    expect(values.every((pid) => Number(pid) > 0)).toBe(true);
  },
);

verifies(
  "lifecycle.concurrency",
  "a replica never works on more calls than replica_concurrency",
  async () => {
    for (const [prefix, concurrency] of [
      ["", 1],
      ["", 3],
      ["async ", 1],
      ["async ", 3],
    ] as const) {
      const asyncio = MAIN.replace("def peak", "async def peak").replace(
        "time.sleep(0.01)",
        "await asyncio.sleep(0.01)",
      );
      const main = prefix === "" ? MAIN : `import asyncio\n${asyncio}`;
      const test = await testPool({
        main,
        toml: `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${concurrency}`,
      });
      const peaks = await Promise.all(Array.from({ length: 30 }, () => test.value("peak", {})));
      expect(Math.max(...peaks.map(Number)), `${prefix}def at ${concurrency}`).toBe(concurrency);
    }
  },
);

verifies(
  ["lifecycle.scale-to-zero", "lifecycle.cooldown"],
  "an idle replica stays for the cooldown, then its process ends and none is left",
  async () => {
    const clock = new SkippingClock();
    const test = await testPool({ main: MAIN, toml: `[scaling]\n${COOLDOWN}` }, clock);
    const pid = Number(await test.value("run", {}));
    clock.skip(COOLDOWN_MS / 2);
    expect(test.ready).toHaveLength(1);
    clock.skip(COOLDOWN_MS / 2 + 1_000);
    expect(test.ready).toHaveLength(0);
    await until("there is no replica", () => test.pool.replicas.size === 0 && !isAlive(pid));
    expect(test.exits).toEqual(["exit code 0"]);
    expect(Number(await test.value("run", {}))).not.toBe(pid);
  },
);

verifies("lifecycle.cooldown", "a call within the cooldown begins it anew", async () => {
  const clock = new SkippingClock();
  const test = await testPool({ main: MAIN, toml: `[scaling]\n${COOLDOWN}` }, clock);
  const pid = await test.value("run", {});
  clock.skip(COOLDOWN_MS * 0.6);
  expect(await test.value("run", {})).toBe(pid);
  clock.skip(COOLDOWN_MS * 0.6);
  expect(test.ready).toHaveLength(1);
  clock.skip(COOLDOWN_MS * 0.6);
  await until("the replica is gone in the end", () => test.pool.replicas.size === 0);
});

verifies(
  "lifecycle.min-replicas",
  "min_replicas start without a call and stay through idle time",
  async () => {
    const clock = new SkippingClock();
    const toml = `[scaling]\nmin_replicas = 1\nmax_replicas = 3\n${COOLDOWN}`;
    const test = await testPool({ main: MAIN, toml }, clock);
    await until("one replica is ready before any call", () => test.ready.length === 1);
    const burst = holdAll(test, 3);
    await until("three are ready", () => test.ready.length === 3);
    test.leave("go");
    await Promise.all(burst);
    clock.skip(COOLDOWN_MS + 1_000);
    await until("the other two have gone", () => test.pool.replicas.size === 1);
    clock.skip(2 * COOLDOWN_MS);
    expect(test.ready).toHaveLength(1);
  },
);

verifies("lifecycle.scaling-buffer", "so many replicas more than needed are ready at any load", async () => {
  const toml = "[scaling]\nscaling_buffer = 1\nmax_replicas = 3";
  const test = await testPool({ main: MAIN, toml });
  await until("one is ready for no call", () => test.ready.length === 1);
  const first = holdAll(test, 1);
  await until("two are ready for one call", () => test.ready.length === 2);
  const second = holdAll(test, 1);
  await until("three are ready for two calls", () => test.ready.length === 3);
  test.leave("go");
  await Promise.all([...first, ...second]);
});

verifies("lifecycle.load-balancing", "the algorithm decides which replica takes a call", async () => {
  const pidsOf = async (algorithm: string): Promise<unknown[]> => {
    const toml = `[scaling]\nmin_replicas = 3\nmax_replicas = 3\nload_balancing_algorithm = "${algorithm}"`;
    const test = await testPool({ main: MAIN, toml });
    await until("all are ready", () => test.ready.length === 3);
    const pids: unknown[] = [];
    for (let call = 0; call < 6; call++) pids.push(await test.value("run", {}));
    return pids;
  };
  const turns = await pidsOf("round-robin");
  expect(new Set(turns.slice(0, 3)).size).toBe(3);
  expect(turns.slice(3)).toEqual(turns.slice(0, 3));
  expect(new Set(await pidsOf("first-available")).size).toBe(1);
});

verifies(
  "lifecycle.idle",
  "a thread that a function left behind keeps no replica busy or alive",
  async () => {
    const test = await testPool({ main: MAIN, toml: '[scaling]\nmax_replicas = 1\ncooldown = "200ms"' });
    const pid = Number(await test.value("leave_thread", {}));
    expect(await test.value("run", {})).toBe(pid);
    await until("it is gone after the cooldown", () => test.pool.replicas.size === 0 && !isAlive(pid));
    expect(test.exits).toEqual(["exit code 0"]);
  },
);
