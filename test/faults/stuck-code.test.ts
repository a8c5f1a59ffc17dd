import { expect, test } from "vitest";
import { testPool } from "../support/pool.ts";
import { isAlive } from "../support/process-tree.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const MAIN = `
import os
import time

def run():
    return os.getpid()

def deaf():
    open("deaf", "w").close()
    while True:
        try:
            while True:
                time.sleep(0.01)
        except BaseException:
            pass

def hold():
    open("entered", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.005)
    return os.getpid()
`;

// Both in one test: the 5 s of grace pass only once.
verifies(
  ["cancel.kill", "cancel.drain-first"],
  "code deaf to cancel has its replica killed after 5 s, at concurrency > 1 after its other calls have ended",
  async () => {
    const alone = await testPool({ main: MAIN, toml: "[scaling]\nmax_replicas = 1" });
    const shared = await testPool({
      main: MAIN,
      toml: "[scaling]\nmax_replicas = 1\nreplica_concurrency = 3",
    });
    const pids = [Number(await alone.value("run", {})), Number(await shared.value("run", {}))] as const;
    const deaf = [alone.submit("deaf", {}), shared.submit("deaf", {})] as const;
    const beside = shared.value("hold", {});
    await until("all run", () => alone.has("deaf") && shared.has("deaf") && shared.has("entered"));
    const cancelledAt = performance.now();
    alone.pool.abandon(deaf[0].call, { kind: "cancelled" });
    shared.pool.abandon(deaf[1].call, { kind: "cancelled" });
    expect(await deaf[0].ended).toEqual({ kind: "cancelled" });
    const next = alone.value("run", {});

    expect(Number(await next)).not.toBe(pids[0]);
    const killedAfterMs = performance.now() - cancelledAt;
    expect(killedAfterMs).toBeGreaterThan(4_900);
    expect(killedAfterMs).toBeLessThan(8_000);
    await until("the deaf replica is gone", () => !isAlive(pids[0]));

    // The shared one takes no new call, but lives until the call beside has its answer.
    await until("it is drained", () => shared.ready.length === 0);
    expect(Number(await shared.value("run", {}))).not.toBe(pids[1]);
    expect(isAlive(pids[1])).toBe(true);
    shared.leave("go");
    expect(await beside).toBe(pids[1]);
    await until("then it is killed", () => !isAlive(pids[1]));
  },
);

test("a replica stopped by SIGSTOP past response_grace_period is 504 for its call, then killed and replaced", async () => {
  const toml = '[scaling]\nmax_replicas = 1\nresponse_grace_period = "1s"';
  const pool = await testPool({ main: MAIN, toml });
  const pid = Number(await pool.value("run", {}));
  const held = pool.submit("hold", {});
  await until("it runs", () => pool.has("entered"));
  const startedAt = performance.now();
  process.kill(pid, "SIGSTOP");
  expect((await held.ended).kind).toBe("timed_out");
  expect(performance.now() - startedAt).toBeLessThan(2_500);
  const next = await pool.value("run", {});
  expect(next).not.toBe(pid);
  expect(isAlive(pid)).toBe(false);
});
