import { expect } from "vitest";
import { OnceClient } from "../../integration/once/site.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { testPool, type TestPool } from "../../support/pool.ts";
import { isAlive, parentOf } from "../../support/process-tree.ts";
import { serveApps } from "../../support/serve-apps.ts";
import { WITHOUT_WALLS, testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

/** A replica that will not leave by itself, and whose calls stop those that should end it. */
const MAIN = `
import atexit
import os
import signal
import subprocess
import sys
import time

STOPPER = "import os, sys, time\\nwhile True:\\n    for pid in sys.argv[1:]: os.kill(int(pid), 19)\\n    time.sleep(0.001)"

def _stay():
    open("leaving", "w").close()
    while True:
        time.sleep(1)

atexit.register(_stay)

def run():
    return os.getpid()

def hold():
    open("held", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)
    return os.getpid()

def stop(levels, again=False):
    """Stops so many of those above, for once or again and again; tells all the processes that must end."""
    above = [os.getppid()]
    while len(above) < levels:
        with open("/proc/%d/stat" % above[-1]) as stat:
            above.append(int(stat.read().rpartition(")")[2].split()[1]))
    started = [subprocess.Popen(["sleep", "1000"], start_new_session=True).pid]
    if again:
        arguments = [sys.executable, "-c", STOPPER, *map(str, above)]
        started.append(subprocess.Popen(arguments, start_new_session=True).pid)
    for pid in above:
        os.kill(pid, signal.SIGSTOP)
    return [os.getpid(), *started, *above]
`;

const ORDINARY = '[deployment]\nfork = "never"\n';
const CASES = [
  { title: "a forked replica's keeper", levels: 1, again: false, toml: "" },
  { title: "keeper and template", levels: 2, again: false, toml: "" },
  { title: "keeper, template and its keeper", levels: 3, again: false, toml: "" },
  { title: "an ordinary replica's keeper", levels: 1, again: false, toml: ORDINARY },
  { title: "a forked replica's keeper, over and over", levels: 1, again: true, toml: "" },
  { title: "keeper, template and its keeper, over and over", levels: 3, again: true, toml: "" },
  { title: "an ordinary replica's keeper, over and over", levels: 1, again: true, toml: ORDINARY },
] as const;
/** Longer than any one step on the way to a replica's end: asked, told to its template, killed from outside. */
const STEP_MS = 6_000;

for (const { title, levels, again, toml } of CASES) {
  verifies("hardening.certain-end", `stopped: ${title}: all of it ends after the cooldown`, async () => {
    const clock = new SkippingClock();
    const pool = await testPool({ main: MAIN, toml }, clock);
    const pids = (await pool.value("stop", { levels, again })) as number[];
    await leave(pool, clock);
    await endByStep(pids, clock);
  });
}

verifies("hardening.certain-end", "a sibling of a replica whose keeper is stopped goes on", async () => {
  const clock = new SkippingClock();
  const toml = "[scaling]\nmin_replicas = 1\nmax_replicas = 2";
  const pool = await testPool({ main: MAIN, toml }, clock);
  const held = pool.value("hold", {});
  await until("one runs", () => pool.has("held"));
  const pids = (await pool.value("stop", { levels: 1, again: true })) as number[];
  pool.leave("go");
  const sibling = Number(await held);
  await leave(pool, clock);
  // The first asking does not reach a keeper that is stopped again at once; the second goes past it.
  clock.skip(STEP_MS);
  await until("the replica is gone", () => pids.every((pid) => !isAlive(pid)));
  expect(await pool.value("run", {})).toBe(sibling);
});

verifies("hardening.certain-end", "a pool whose every process is stopped can be closed", async () => {
  const clock = new SkippingClock();
  const pool = await testPool({ main: MAIN }, clock);
  const pids = (await pool.value("stop", { levels: 3 })) as number[];
  const closed = pool.pool.close({ kind: "refused", code: "draining" });
  await endByStep(pids, clock);
  await closed;
});

verifies(
  ["hardening.certain-end", "replica.service-death"],
  "stopped keepers and templates end with a service that is killed",
  async () => {
    const service = await serveApps(
      {
        forked: { main: MAIN },
        deep: { main: MAIN },
        plain: { main: MAIN, toml: ORDINARY },
      },
      { MILLRACE_ISOLATION: "none" },
    );
    const pids: number[] = [];
    for (const [app, levels] of [
      ["forked", 1],
      ["deep", 3],
      ["plain", 1],
    ] as const) {
      const { status, json } = await service.call(app, "stop", { levels });
      expect(status).toBe(200);
      pids.push(...json.result);
    }
    const above = pids.map(parentOf).filter((pid) => pid !== service.command.pid);
    process.kill(service.command.pid, "SIGKILL");
    await service.command.exited;
    await until("nothing is left", () => [...pids, ...above].every((pid) => !isAlive(pid)));
  },
);

verifies(
  ["hardening.certain-end", "run-once.cancel"],
  "a file that stops its keeper over and over is cancelled with all it started",
  async () => {
    const clock = new SkippingClock();
    const service = await testService({}, WITHOUT_WALLS, { clock });
    const client = new OnceClient(service, "stopping");
    const main = `${MAIN}\nprint("pids", *stop(1, True))\ntime.sleep(1000)`;
    const runId = await client.run("filename=main.py", { "main.py": main });
    const told = (): string => service.logs.find(({ text }) => text.startsWith("pids "))?.text ?? "";
    await until("it has stopped its keeper", () => told() !== "");
    const pids = told().split(" ").slice(1).map(Number);
    expect((await service.ofRun("stopping", runId, "cancel", { method: "POST" })).status).toBe(202);
    clock.skip(STEP_MS);
    await until("all of it is gone", () => pids.every((pid) => !isAlive(pid)));
    expect(await client.ended(runId)).toMatchObject({ status: "failed", error: { code: "cancelled" } });
  },
);

/** To where the replica was asked to leave, does not, and its time is over. */
async function leave(pool: TestPool, clock: SkippingClock): Promise<void> {
  clock.skip(pool.scaling.cooldownSeconds * 1000 + 1_000);
  await until("it is leaving", () => pool.has("leaving"));
  clock.skip(pool.scaling.responseGracePeriodSeconds * 1000 + STEP_MS);
}

/** Asked, asked past its keeper, its template asked, all of it killed from outside. */
async function endByStep(pids: readonly number[], clock: SkippingClock): Promise<void> {
  for (let step = 0; step < 3; step++) clock.skip(STEP_MS);
  await until(`${pids.join(", ")} are gone`, () => pids.every((pid) => !isAlive(pid)));
}
