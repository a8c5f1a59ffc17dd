import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { HandClock } from "../../support/clocks.ts";
import { HeldClock } from "../../support/held-clock.ts";
import { testPool, type TestPool } from "../../support/pool.ts";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

/** An app that fails at its import while there is a file `broken`, once there is a file `go`. */
const BROKEN = `
import os
import time

def has(name):
    return os.path.exists(os.path.join(os.environ["PERSISTENT_STORAGE"], name))

if has("broken"):
    while not has("go"):
        time.sleep(0.005)
    raise ValueError("the weights are not there")

def run():
    return 1
`;

/**
 * Waits for something while the time passes that a replica is given for its last words. One that waited for a
 * template has no connection, and is given all of it.
 */
async function passing(clock: Pick<HandClock, "advance">, what: string, holds: () => boolean): Promise<void> {
  await until(what, () => {
    if (!holds()) clock.advance(100);
    return holds();
  });
}

verifies(
  "errors.app-not-ready",
  "an app whose import fails is 503 with the last traceback line, and serves again when the cause is gone",
  async () => {
    const clock = new HeldClock();
    const service = await testService({}, {}, { clock });
    clock.hold();
    onTestFinished(() => clock.release());
    const storage = path.join(service.settings.dataDir, "storage", service.service.owner.projectId);
    const [broken, go] = [path.join(storage, "broken"), path.join(storage, "go")];
    for (const fork of ["auto", "never"]) {
      const toml = `[deployment]\nfork = "${fork}"\n[scaling]\nmax_replicas = 4`;
      const { pool } = await service.deploy(fork, { main: BROKEN, toml });
      if (!existsSync(broken)) await writeFile(broken, "");
      const calls = Array.from({ length: 20 }, () => service.call(fork));
      await until("all wait for four starts", () => pool.slots.waiting === 20 && pool.replicas.size === 4);
      clock.advance(1);
      await writeFile(go, "");
      const isOver = () => pool.replicas.size === 0;
      if (fork === "auto") await passing(clock, "all starts have failed", isOver);
      const answers = await Promise.all(calls);
      if (fork === "never") {
        // While it is not tried again, nobody waits for it.
        answers.push(await service.call(fork));
        await until("all starts have failed", isOver);
        // Twenty callers and four starts are one failure: the gap before the next try is the first one.
        answers.push(await service.call(fork));
        expect(pool.counts.starts).toBe(4);
      }
      for (const answer of answers) {
        expect([answer.status, answer.json.code]).toEqual([503, "app_not_ready"]);
        expect(answer.json.message).toBe("ValueError: the weights are not there");
        expect(answer.headers.get("retry-after")).toBe("1");
      }
      await rm(broken);
      await rm(go);
      clock.advance(300);
      expect((await service.call(fork)).json.result).toBe(1);
    }
  },
);

test("an app whose process ends at its import is refused, not waited for without end", async () => {
  for (const fork of ["auto", "never"]) {
    const main = "import os\nos._exit(3)\n";
    const toml = `[deployment]\nfork = "${fork}"\n[scaling]\nmax_replicas = 1`;
    const clock = new HandClock();
    const pool = await testPool({ main, toml }, clock);
    const { call, ended } = pool.submit("run", {});
    await passing(clock, "it is refused", () => call.hasEnded);
    const outcome = await ended;
    expect(outcome).toMatchObject({ kind: "refused", code: "app_not_ready" });
    expect(outcome.kind === "refused" && outcome.message).toContain("exit code 3");
  }
});

const starts = ({ pool }: TestPool): number => pool.counts.starts;

/** Sees that no replica is started until about then, give or take a fifth, and then one is. */
function expectStartAfter(pool: TestPool, clock: HandClock, ms: number): void {
  const before = starts(pool);
  clock.advance(0.8 * ms - 1);
  expect([ms, starts(pool)]).toEqual([ms, before]);
  clock.advance(0.4 * ms + 1);
  expect([ms, starts(pool)]).toEqual([ms, before + 1]);
}

verifies(
  "replica.crash-loop",
  "a replica that ends by itself again and again is started with growing gaps",
  async () => {
    // It ends when it is ready and finds that file: earlier, and its end would be that of a start.
    const main = `
import os
import threading
import time

def leave():
    while True:
        try:
            os.unlink("leave")
            os._exit(1)
        except FileNotFoundError:
            time.sleep(0.005)

threading.Thread(target=leave, daemon=True).start()

def run():
    return 1
`;
    const clock = new HandClock();
    const toml = "[scaling]\nmin_replicas = 1\nmax_replicas = 1";
    const pool = await testPool({ main, toml }, clock);
    const endOne = async (): Promise<void> => {
      const before = pool.exits.length;
      await until("one is ready", () => pool.ready.length === 1);
      pool.leave("leave");
      await until("that one has ended", () => pool.exits.length === before + 1);
    };
    // Once right away.
    await endOne();
    await endOne();
    expect(starts(pool)).toBe(2);
    for (const ms of [500, 1_000, 2_000, 4_000]) {
      expectStartAfter(pool, clock, ms);
      await endOne();
    }
  },
);

verifies(
  "replica.crash-loop",
  "calls that crash an app one after another meet growing gaps, and an answer ends them",
  async () => {
    const main = "import os\ndef run():\n    return 1\ndef die():\n    os._exit(1)\n";
    const clock = new HandClock();
    const pool = await testPool({ main, toml: "[scaling]\nmax_replicas = 1" }, clock);
    const die = () => pool.submit("die", {}).ended;
    for (let i = 0; i < 2; i++) expect((await die()).kind).toBe("died");
    for (const ms of [500, 1_000]) {
      const death = die();
      expectStartAfter(pool, clock, ms);
      expect((await death).kind).toBe("died");
    }
    const answer = pool.value("run", {});
    expectStartAfter(pool, clock, 2_000);
    expect(await answer).toBe(1);
    // As if nothing had been: the next crash costs no wait.
    expect((await die()).kind).toBe("died");
    expect(await pool.value("run", {})).toBe(1);
  },
);
