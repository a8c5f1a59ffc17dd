import { expect, test } from "vitest";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { HandClock } from "../../support/clocks.ts";
import { HeldClock } from "../../support/held-clock.ts";
import { testPool, type TestPool } from "../../support/pool.ts";
import { WITHOUT_WALLS, testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

/** Its runs take no time at all, by the harness's measure: it is always fast enough to have calls handed ahead. */
const MAIN = `
import os
import sys
import time

time.perf_counter = lambda: 0.0
for name, module in list(sys.modules.items()):
    if name.startswith("millrace_worker.") and hasattr(module, "perf_counter"):
        module.perf_counter = time.perf_counter

def run(n=0):
    return n

def hold():
    with open("entered-%d" % os.getpid(), "a") as entered:
        entered.write("x")
    while not os.path.exists("go"):
        time.sleep(0.005)
    return os.getpid()

def die(code=3):
    with open("died", "a") as died:
        died.write("x")
    os._exit(code)
`;

verifies(
  ["show.kill-replica", "errors.app-crashed"],
  "kill -9 of a replica in mid-call is 502 for that caller while the clock stands still, and nothing for the others",
  async () => {
    const clock = new HeldClock();
    const app = { main: MAIN, toml: "[scaling]\nmax_replicas = 2" };
    const service = await testService({ app }, WITHOUT_WALLS, { clock });
    const hold = { functionName: "hold" };
    const calls = [service.call("app", {}, hold), service.call("app", {}, hold)];
    const pool = service.apps.get("app")?.pool;
    await until(
      "both run",
      () => [...(pool?.replicas ?? [])].filter(({ calls }) => calls.size === 1).length === 2,
    );
    const [victim, other] = [...(pool?.replicas ?? [])];
    const waiting = service.call("app", { n: 7 });
    await until("a third call waits", () => pool?.slots.waiting === 1);
    // It stands still: whatever happens now is no timer's doing.
    clock.hold();
    process.kill(victim?.pid ?? 0, "SIGKILL");
    const crashed = await Promise.race(calls);
    clock.release();
    expect([crashed.status, crashed.json.code]).toEqual([502, "app_crashed"]);
    expect(crashed.json.message).toContain("killed by SIGKILL");
    // The third call goes to a new replica while the other one still works.
    expect([(await waiting).status, (await waiting).json.result]).toEqual([200, 7]);
    const bundleDir = service.bundleDir("app");
    expect(readFileSync(path.join(bundleDir, `entered-${other?.pid}`), "utf8")).toBe("x");
    writeFileSync(path.join(bundleDir, "go"), "");
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 502]);
    await service.service.settle();
    const id = crashed.headers.get("x-request-id") ?? "";
    const appNumber = service.apps.get("app")?.app.number ?? 0;
    const run = await service.service.store.runs.find({ appNumber, id });
    expect(run).toMatchObject({ state: "failure", statusCode: 502, errorCode: "app_crashed" });
  },
);

/** As many calls as it takes to know that the app is fast. */
async function warmUp(pool: TestPool): Promise<void> {
  for (let n = 0; n < 64; n++) await pool.value("run", { n });
}

for (const concurrency of [1, 3]) {
  test(`a call that ends its replica ends alone: those handed ahead are answered by another (concurrency ${concurrency})`, async () => {
    const toml = `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${concurrency}`;
    const pool = await testPool({ main: MAIN, toml }, new HandClock());
    await warmUp(pool);
    for (let round = 1; round <= 5; round++) {
      // It was killed with its last calls: another one has to be there before calls can be handed ahead.
      await pool.value("run", {});
      const deadly = Array.from({ length: concurrency }, () => pool.submit("die", {}));
      const others = Array.from({ length: 20 }, (_, n) => pool.submit("run", { n }));
      expect(others.every(({ call }) => call.holder !== null)).toBe(true);
      const deaths = await Promise.all(deadly.map(({ ended }) => ended));
      expect(deaths).toEqual(deadly.map(() => ({ kind: "died", detail: "exit code 3" })));
      const values = await Promise.all(others.map(({ ended }) => ended));
      expect(values.map((value) => (value.kind === "returned" ? Number(value.json) : value.kind))).toEqual([
        ...others.keys(),
      ]);
      // Each of them began once at most: a call that crashes must not be tried again.
      expect(pool.text("died").length).toBeLessThanOrEqual(round * concurrency);
    }
  });
}

test("a fast call just before the one that ends the replica keeps its answer", async () => {
  const pool = await testPool({ main: MAIN, toml: "[scaling]\nmax_replicas = 1" }, new HandClock());
  await warmUp(pool);
  for (let round = 1; round <= 10; round++) {
    const before = Array.from({ length: 5 }, (_, n) => pool.submit("run", { n }));
    const death = pool.submit("die", {});
    const after = pool.submit("run", { n: 5 });
    expect((await death.ended).kind).toBe("died");
    const values = await Promise.all([...before, after].map(({ ended }) => ended));
    expect(values.map(({ kind }) => kind)).toEqual(values.map(() => "returned"));
    expect(pool.text("died")).toHaveLength(round);
  }
});
