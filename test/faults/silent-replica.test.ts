import { existsSync, readFileSync } from "node:fs";
import { expect } from "vitest";
import { HEARTBEAT_MS } from "../../src/engines/heartbeat.ts";
import { bundleFile, ended, recordOf, submit } from "../integration/async/site.ts";
import { HandClock, SkippingClock } from "../support/clocks.ts";
import { HOLDING_APP } from "../support/holding-app.ts";
import { type TestCall, testPool, type TestPool } from "../support/pool.ts";
import { isAlive, parentOf } from "../support/process-tree.ts";
import { WITHOUT_WALLS, testService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

/** Some of its C code keeps the interpreter: `PyDLL` and `re` do not let go of it. */
const MAIN = `${HOLDING_APP}
import ctypes

libc = ctypes.PyDLL(None)

def first_holds():
    try:
        os.close(os.open("first", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return os.getpid()
    return hold()

def hang():
    open("hangs", "w").close()
    libc.sleep(1000)

def leave_child():
    child = libc.fork()
    if child == 0:
        libc.sleep(1000)
    return child
`;
/** On the main thread, so that a signal can end it; beside it there is room for another call. */
const COMPUTING = `${MAIN}
import re
import signal

class Enough(Exception):
    pass

def _enough(number, frame):
    raise Enough

signal.signal(signal.SIGUSR1, _enough)

async def compute():
    open("computes", "w").close()
    try:
        re.match("(a+)+$", "a" * 64 + "b")
    except Enough:
        return os.getpid()
`;
const ONE = "[scaling]\nmax_replicas = 1\nmin_replicas = 1\n";
const WHY_STOPPED = "it was stopped and did not answer for 5 s";
const WHY_HUNG = "it hung: it did not answer and did nothing for 5 s";

/** Moves the time on by rounds until that is so. */
async function rounds(clock: HandClock, what: string, holds: () => boolean): Promise<void> {
  await until(what, () => {
    clock.advance(HEARTBEAT_MS);
    return holds();
  });
}

/** How a call ends while time goes by. */
async function endOf(clock: HandClock, { call, ended: end }: TestCall): Promise<unknown> {
  await rounds(clock, "the call has ended", () => call.hasEnded);
  const outcome = await end;
  return outcome.kind === "returned" ? JSON.parse(outcome.json.toString()) : outcome;
}

async function freeze(pid: number): Promise<void> {
  process.kill(pid, "SIGSTOP");
  await until("it is stopped", () => stateOf(pid) === "T");
}

function stateOf(pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.charAt(stat.lastIndexOf(")") + 2);
}

const isSilent = ({ pool }: TestPool, pid: number): boolean =>
  [...pool.replicas].some((replica) => replica.pid === pid && replica.isSilent);

for (const fork of ["auto", "never"]) {
  verifies(
    ["replica.silent.dead", "replica.silent.calls"],
    `a call given to a stopped replica is answered by another (fork = ${fork})`,
    async () => {
      const clock = new HandClock();
      const toml = `[deployment]\nfork = "${fork}"\n${ONE}`;
      const pool = await testPool({ main: MAIN, toml }, clock);
      const pid = Number(await pool.value("run", {}));
      await freeze(pid);
      const next = pool.submit("run", {});
      const answer = Number(await endOf(clock, next));
      expect([answer > 0, answer !== pid, pool.exits]).toEqual([true, true, [WHY_STOPPED]]);
      await until("the stopped one is gone", () => !isAlive(pid));
    },
  );
}

verifies(
  "replica.silent.calls",
  "what a stopped replica had begun has died, what it had not read goes elsewhere",
  async () => {
    const clock = new HandClock();
    const pool = await testPool({ main: MAIN, toml: `${ONE}replica_concurrency = 3\n` }, clock);
    const pid = Number(await pool.value("run", {}));
    const begun = pool.submit("hold", {});
    await until("it runs", () => pool.has(`entered-${pid}`));
    await freeze(pid);
    const unread = pool.submit("run", {});
    expect(await endOf(clock, begun)).toEqual({ kind: "died", detail: WHY_STOPPED });
    const answer = await endOf(clock, unread);
    expect([typeof answer, answer === pid]).toEqual(["number", false]);
  },
);

verifies("replica.silent.dead", "C code that holds the interpreter and sleeps is dead", async () => {
  const clock = new HandClock();
  const pool = await testPool({ main: MAIN, toml: ONE }, clock);
  const pid = Number(await pool.value("run", {}));
  const hung = pool.submit("hang", {});
  await until("it hangs", () => pool.has("hangs"));
  expect(await endOf(clock, hung)).toEqual({ kind: "died", detail: WHY_HUNG });
  expect(await endOf(clock, pool.submit("run", {}))).not.toBe(pid);
});

verifies(
  "replica.silent.computing",
  "C code that holds the interpreter and computes gets no call and is not killed",
  async () => {
    const clock = new HandClock();
    const toml = "[scaling]\nmax_replicas = 2\ncooldown = 3600\nreplica_concurrency = 2\n";
    const pool = await testPool({ main: COMPUTING, toml }, clock);
    const pid = Number(await pool.value("run", {}));
    const computing = pool.submit("compute", {});
    await until("it computes", () => pool.has("computes"));
    await rounds(clock, "it is silent", () => isSilent(pool, pid));
    const elsewhere = await endOf(clock, pool.submit("run", {}));
    expect([elsewhere !== pid, computing.call.hasEnded]).toEqual([true, false]);
    const before = clock.elapsedMs;
    await rounds(clock, "it was silent for long", () => clock.elapsedMs > before + 60_000);
    expect([isSilent(pool, pid), pool.exits]).toEqual([true, []]);
    process.kill(pid, "SIGUSR1");
    expect(await endOf(clock, computing)).toBe(pid);
    await rounds(clock, "it speaks again", () => !isSilent(pool, pid));
  },
);

verifies("replica.silent.dead", "a zombie whose connections others hold open is dead", async () => {
  const clock = new HandClock();
  const pool = await testPool({ main: MAIN, toml: ONE }, clock);
  const pid = Number(await pool.value("run", {}));
  const child = Number(await pool.value("leave_child", {}));
  const keeper = parentOf(pid);
  // Who does not run buries nobody.
  await freeze(keeper);
  process.kill(pid, "SIGKILL");
  await until("it is a zombie", () => stateOf(pid) === "Z");
  expect(await endOf(clock, pool.submit("run", {}))).not.toBe(pid);
  expect(pool.exits).toEqual([WHY_STOPPED]);
  await until("nothing of it is left", () => ![pid, child, keeper].some(isAlive));
});

verifies(
  "replica.silent.awake",
  "replicas that stood still together with the service are not taken for dead",
  async () => {
    const clock = new HandClock();
    const pool = await testPool({ main: MAIN, toml: ONE }, clock);
    const pid = Number(await pool.value("run", {}));
    for (let night = 0; night < 4; night++) {
      await freeze(pid);
      // All of it in one turn: as when the machine slept, or this process was busy.
      clock.advance(8 * 3600 * 1000);
      process.kill(pid, "SIGCONT");
      expect(await pool.value("run", {})).toBe(pid);
    }
    expect(pool.exits).toEqual([]);
  },
);

verifies(
  "replica.silent.calls",
  "a caller of a stopped replica gets 502, an async run another attempt",
  async () => {
    const clock = new SkippingClock();
    const app = { main: MAIN, toml: ONE };
    const service = await testService({ sync: app, async: app }, WITHOUT_WALLS, { clock });
    const pidOf = async (name: string): Promise<number> => (await service.call(name)).json.result;
    const pids = { sync: await pidOf("sync"), async: await pidOf("async") };
    const call = service.call("sync", {}, { functionName: "hold" });
    const id = await submit(service, "async", {}, { functionName: "first_holds" });
    const entered = (name: "sync" | "async"): boolean =>
      existsSync(bundleFile(service, name, `entered-${pids[name]}`));
    await until("both run", () => entered("sync") && entered("async"));
    await Promise.all([freeze(pids.sync), freeze(pids.async)]);
    const pass = (): void => clock.skip(HEARTBEAT_MS);
    await until("the run has ended", async () => {
      pass();
      return (await recordOf(service, "async", id)).completedAt !== null;
    });
    expect(await ended(service, "async", id)).toMatchObject({ status: "success", attempt: 2 });
    const { status, json } = await call;
    expect([status, json.code, json.message]).toEqual([
      502,
      "app_crashed",
      `The app's process ended before it answered (${WHY_STOPPED}).`,
    ]);
    const line = `[millrace] this process was killed: ${WHY_STOPPED}`;
    expect(service.logs.filter(({ text }) => text === line)).toHaveLength(2);
  },
);
