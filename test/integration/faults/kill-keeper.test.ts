import { expect, test } from "vitest";
import { testPool } from "../../support/pool.ts";
import { isAlive, parentOf } from "../../support/process-tree.ts";
import { until } from "../../support/until.ts";

const MAIN = `
import os
import subprocess
import time

IMPORTED_BY = os.getpid()

def run():
    return os.getpid()

def imported_by():
    return IMPORTED_BY

def start_child():
    return [os.getpid(), subprocess.Popen(["sleep", "1000"], start_new_session=True).pid]

def hold():
    open("entered", "w").close()
    while True:
        time.sleep(0.01)
`;

test("kill -9 of a replica's keeper ends the replica and what it started, and the next call finds another", async () => {
  const pool = await testPool({ main: MAIN });
  const pids = (await pool.value("start_child", {})) as number[];
  const [replica = 0] = pids;
  const held = pool.submit("hold", {});
  await until("a call runs", () => pool.has("entered"));
  process.kill(parentOf(replica), "SIGKILL");
  expect((await held.ended).kind).toBe("died");
  await until("all of it is gone", () => pids.every((pid) => !isAlive(pid)));
  expect(await pool.value("run", {})).not.toBe(replica);
});

test("kill -9 of a keeper of an ordinary replica ends the replica", async () => {
  const pool = await testPool({ main: MAIN, toml: '[deployment]\nfork = "never"' });
  const replica = Number(await pool.value("run", {}));
  const held = pool.submit("hold", {});
  await until("a call runs", () => pool.has("entered"));
  process.kill(parentOf(replica), "SIGKILL");
  expect((await held.ended).kind).toBe("died");
  await until("the replica is gone", () => !isAlive(replica));
  expect(await pool.value("run", {})).not.toBe(replica);
});

test("kill -9 of a template costs the calls in its replicas, not those that wait", async () => {
  const pool = await testPool({ main: MAIN, toml: "[scaling]\nmax_replicas = 1" });
  const template = Number(await pool.value("imported_by", {}));
  const replica = Number(await pool.value("run", {}));
  const held = pool.submit("hold", {});
  await until("a call runs", () => pool.has("entered"));
  const waiting = pool.submit("run", {});
  process.kill(template, "SIGKILL");
  expect((await held.ended).kind).toBe("died");
  expect((await waiting.ended).kind).toBe("returned");
  await until("the old replica is gone", () => !isAlive(replica));
  expect(await pool.value("imported_by", {})).not.toBe(template);
});

test("kill -9 of a template while it imports is survived by the calls that wait", async () => {
  const main = `${MAIN}
if not os.path.exists("importing"):
    with open("importing.new", "w") as pid:
        pid.write(str(os.getpid()))
    os.rename("importing.new", "importing")
    time.sleep(1000)
`;
  const pool = await testPool({ main, toml: "[scaling]\nmax_replicas = 3" });
  const waiting = Array.from({ length: 5 }, () => pool.submit("run", {}));
  await until("it imports", () => pool.has("importing"));
  process.kill(Number(pool.text("importing")), "SIGKILL");
  const outcomes = await Promise.all(waiting.map(({ ended }) => ended));
  expect(outcomes.map(({ kind }) => kind)).toEqual(waiting.map(() => "returned"));
});
