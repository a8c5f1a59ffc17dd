import { expect, test } from "vitest";
import { testPool } from "../../support/pool.ts";
import { isAlive } from "../../support/process-tree.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import os
import signal
import subprocess
import time

def on_sigterm(number, frame):
    open("terminated", "w").close()
    while not os.path.exists("end"):
        time.sleep(0.005)

if os.path.exists("listens"):
    signal.signal(signal.SIGTERM, on_sigterm)

def run():
    return os.getpid()

def hold():
    open("entered", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.005)
    return os.getpid()

def daemon():
    """A child that detaches itself as daemons do: two forks and a session of its own."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(1000)
        os.write(write, b"%d" % pid)
        os._exit(0)
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    return [os.getpid(), child.pid, int(os.read(read, 20))]
`;

verifies(
  "lifecycle.sigterm",
  "a replica whose time is over gets SIGTERM, and new calls go elsewhere",
  async () => {
    const pool = await testPool({
      main: MAIN,
      toml: '[scaling]\nmax_replicas = 1\ncooldown = "100ms"',
      files: { listens: "" },
    });
    const pid = Number(await pool.value("run", {}));
    await until("its SIGTERM handler runs", () => pool.has("terminated"));
    expect(isAlive(pid)).toBe(true);
    expect(await pool.value("run", {})).not.toBe(pid);
    pool.leave("end");
    await until("it has gone", () => !isAlive(pid));
  },
);

verifies("lifecycle.in-flight", "what is in flight at termination is finished and answered", async () => {
  for (const concurrency of [1, 4]) {
    const toml = `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${concurrency}`;
    const pool = await testPool({ main: MAIN, toml, files: { listens: "", end: "" } });
    const calls = Array.from({ length: concurrency }, () => pool.value("hold", {}));
    await until("a call runs", () => pool.has("entered"));
    const drained = pool.pool.slots.drain();
    await until("the replica has got its SIGTERM", () => pool.has("terminated"));
    pool.leave("go");
    const [pid] = await Promise.all(calls);
    expect(Number(pid)).toBeGreaterThan(0);
    await drained;
    expect(pool.exits).toEqual(["exit code 0"]);
  }
});

verifies("lifecycle.in-flight", "at termination a call gets response_grace_period and no more", async () => {
  const toml = '[scaling]\nmax_replicas = 1\nresponse_grace_period = "1s"';
  const pool = await testPool({ main: MAIN, toml });
  const held = pool.submit("hold", {});
  await until("the call runs", () => pool.has("entered"));
  const drained = pool.pool.slots.drain();
  expect(await held.ended).toMatchObject({ kind: "timed_out" });
  await drained;
  expect(pool.pool.replicas.size).toBe(0);
});

test("calls handed over in the tick in which a replica is stopped are answered", async () => {
  const pool = await testPool({ main: MAIN, toml: "[scaling]\nmax_replicas = 1" });
  for (let call = 0; call < 100; call++) await pool.value("run", {});
  const large = { kwargs: "x".repeat(4_000_000) };
  const calls = [
    ...Array.from({ length: 5 }, () => pool.submit("run", {})),
    // Larger than any socket's buffer: its end is written long after the replica was told to stop.
    pool.submit("run", large),
  ];
  const drained = pool.pool.slots.drain();
  const outcomes = await Promise.all(calls.map(({ ended }) => ended));
  expect(outcomes.map(({ kind }) => kind)).toEqual([
    ...Array.from({ length: 5 }, () => "returned"),
    "misfit",
  ]);
  await drained;
});

for (const fork of ["auto", "never"]) {
  verifies(
    ["lifecycle.sigkill", "replica.daemons"],
    `a child and a double-forked daemon die with their replica (fork = "${fork}")`,
    async () => {
      const toml = `[deployment]\nfork = "${fork}"\n[scaling]\ncooldown = "100ms"`;
      const pool = await testPool({ main: MAIN, toml });
      const pids = (await pool.value("daemon", {})) as number[];
      expect(pids.filter(isAlive)).toEqual(pids);
      await until("nothing of it is left", () => pids.every((pid) => !isAlive(pid)));
    },
  );
}
