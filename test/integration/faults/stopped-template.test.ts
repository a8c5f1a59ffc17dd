import { readFileSync } from "node:fs";
import { expect } from "vitest";
import { HEARTBEAT_MS } from "../../../src/engines/heartbeat.ts";
import { HandClock } from "../../support/clocks.ts";
import { HOLDING_APP } from "../../support/holding-app.ts";
import { type TestCall, testPool } from "../../support/pool.ts";
import { isAlive, parentOf } from "../../support/process-tree.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

/** Its template hangs before its second fork, on its one thread. */
const HANGING = `${HOLDING_APP}
template, births = os.getpid(), 0

def _before():
    global births
    births += os.getpid() == template
    if births == 2 and not os.path.exists("hung"):
        open("hung", "w").close()
        time.sleep(1000)

os.register_at_fork(before=_before)
`;
/** Its template cannot fork when the file `full` is there. */
const FULL = `${HOLDING_APP}
import errno
fork = os.fork

def _fork():
    if os.path.exists("full"):
        os.remove("full")
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return fork()

os.fork = _fork
`;
const TWO = "[scaling]\nmax_replicas = 2\ncooldown = 3600\n";

/** How a call ends while time goes by. */
async function endOf(clock: HandClock, { call, ended }: TestCall): Promise<unknown> {
  await until("the call has ended", () => {
    clock.advance(HEARTBEAT_MS);
    return call.hasEnded;
  });
  const outcome = await ended;
  return outcome.kind === "returned" ? JSON.parse(outcome.json.toString()) : outcome;
}

/** Above a replica there is its keeper, and then the template. */
const templateOf = (pid: number): number => parentOf(parentOf(pid));

async function freeze(pid: number): Promise<void> {
  process.kill(pid, "SIGSTOP");
  await until("it is stopped", () => /\) T /.test(readFileSync(`/proc/${pid}/stat`, "utf8")));
}

verifies(
  "replica.template-dead",
  "what waits for a stopped template starts from a new one, and what it has forked goes on",
  async () => {
    const clock = new HandClock();
    const pool = await testPool({ main: HOLDING_APP, toml: TWO }, clock);
    const pid = Number(await pool.value("run", {}));
    const template = templateOf(pid);
    const held = pool.submit("hold", {});
    await until("it runs", () => pool.has(`entered-${pid}`));
    await freeze(template);
    const other = Number(await endOf(clock, pool.submit("run", {})));
    expect([other > 0, other === pid, templateOf(other) === template]).toEqual([true, false, false]);
    expect([held.call.hasEnded, pool.exits]).toEqual([false, []]);
    expect(pool.faults).toEqual(["it was stopped and did not answer for 5 s"]);
    pool.leave("go");
    expect(await endOf(clock, held)).toBe(pid);
  },
);

verifies(
  "replica.template-dead",
  "a template that the kernel refuses a fork goes on, with all that it has forked, and forks again",
  async () => {
    const pool = await testPool({ main: FULL, toml: TWO });
    const pid = Number(await pool.value("run", {}));
    const held = pool.submit("hold", {});
    await until("it runs", () => pool.has(`entered-${pid}`));
    pool.leave("full");
    const other = Number(await pool.value("run", {}));
    expect([other > 0, other === pid, templateOf(other) === templateOf(pid)]).toEqual([true, false, true]);
    expect([held.call.hasEnded, pool.exits, pool.faults]).toEqual([false, ["exit code 1"], []]);
    pool.leave("go");
    expect(await held.ended).toMatchObject({ kind: "returned", json: Buffer.from(String(pid)) });
  },
);

verifies(
  "replica.template-dead",
  "a template that hangs is ended, and another forks in its place",
  async () => {
    const clock = new HandClock();
    const toml = "[scaling]\nmax_replicas = 1\n";
    const pool = await testPool({ main: HANGING, toml }, clock);
    const pid = Number(await pool.value("run", {}));
    const template = templateOf(pid);
    process.kill(pid, "SIGKILL");
    await until("it is gone", () => pool.exits.length === 1);
    const next = Number(await endOf(clock, pool.submit("run", {})));
    expect([next > 0, next === pid, pool.faults]).toEqual([
      true,
      false,
      ["it hung: it did not answer and did nothing for 5 s"],
    ]);
    await until("the hung one is gone", () => !isAlive(template));
  },
);
