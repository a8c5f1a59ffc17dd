import { expect, test } from "vitest";
import { HandClock } from "../../support/clocks.ts";
import { HOLDING_APP } from "../../support/holding-app.ts";
import { testPool, type TestPool } from "../../support/pool.ts";
import { isAlive } from "../../support/process-tree.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `${HOLDING_APP}
import re

def deaf():
    open("deaf", "w").close()
    while True:
        try:
            while True:
                time.sleep(0.01)
        except BaseException:
            pass

def compute():
    open("computes", "w").close()
    return bool(re.match("(a+)+$", "a" * 64 + "b"))
`;

const isCondemned = ({ pool }: TestPool, pid: number): boolean =>
  [...pool.replicas].some((replica) => replica.pid === pid && replica.isCondemned);

verifies("cancel.kill", "code deaf to cancel has its replica killed after 5 s", async () => {
  const clock = new HandClock();
  const pool = await testPool({ main: MAIN, toml: "[scaling]\nmax_replicas = 1" }, clock);
  const pid = Number(await pool.value("run", {}));
  const deaf = pool.submit("deaf", {});
  await until("it runs", () => pool.has("deaf"));
  pool.pool.slots.abandon(deaf.call, { kind: "cancelled" });
  expect(await deaf.ended).toEqual({ kind: "cancelled" });
  const next = pool.value("run", {});
  clock.advance(4_999);
  expect([isCondemned(pool, pid), isAlive(pid)]).toEqual([false, true]);
  clock.advance(1);
  expect(isCondemned(pool, pid)).toBe(true);
  expect(Number(await next)).not.toBe(pid);
  await until("the deaf replica is gone", () => !isAlive(pid));
});

verifies(
  "cancel.drain-first",
  "at concurrency > 1 the replica of code deaf to cancel is killed after its other calls have ended",
  async () => {
    const clock = new HandClock();
    const toml = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 3";
    const pool = await testPool({ main: MAIN, toml }, clock);
    const pid = Number(await pool.value("run", {}));
    const deaf = pool.submit("deaf", {});
    const beside = pool.value("hold", {});
    await until("both run", () => pool.has("deaf") && pool.has(`entered-${pid}`));
    pool.pool.slots.abandon(deaf.call, { kind: "cancelled" });
    clock.advance(4_999);
    expect([isCondemned(pool, pid), pool.ready.length]).toEqual([false, 1]);
    clock.advance(1);
    // It takes no new call, but lives until the call beside has its answer.
    expect([isCondemned(pool, pid), pool.ready.length]).toEqual([true, 0]);
    expect(Number(await pool.value("run", {}))).not.toBe(pid);
    clock.advance(10_000);
    expect(isAlive(pid)).toBe(true);
    pool.leave("go");
    expect(await beside).toBe(pid);
    clock.advance(100);
    await until("then it is killed", () => !isAlive(pid));
  },
);

test("C code that does not let go of the interpreter past response_grace_period is 504, then killed and replaced", async () => {
  const clock = new HandClock();
  const toml = '[scaling]\nmax_replicas = 1\nresponse_grace_period = "60s"';
  const pool = await testPool({ main: MAIN, toml }, clock);
  const pid = Number(await pool.value("run", {}));
  const computing = pool.submit("compute", {});
  await until("it runs", () => pool.has("computes"));
  clock.advance(59_999);
  expect(computing.call.hasEnded).toBe(false);
  clock.advance(10);
  expect((await computing.ended).kind).toBe("timed_out");
  clock.advance(5_000);
  expect(await pool.value("run", {})).not.toBe(pid);
  await until("the old one is gone", () => !isAlive(pid));
});
