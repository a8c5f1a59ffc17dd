import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { HandClock } from "../../support/clocks.ts";
import { testPool } from "../../support/pool.ts";
import { isAlive } from "../../support/process-tree.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

/** C code that keeps the interpreter until the test opens the other end of its pipe. */
const MAIN = `
import ctypes, os, time

def hold(n: list[int]):
    with open("runs", "a") as file:
        file.write(f"{len(n)} ")
    if len(n) > 1 and not os.path.exists("pipe"):
        os.mkfifo("pipe")
        open("held", "w").close()
        ctypes.PyDLL(None).open(b"pipe", os.O_RDONLY)
    return n

def busy():
    open("busy", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.005)

class Decoder:
    capacity = 4
    def __init__(self):
        self.calls = []
    def add(self, id):
        self.calls.append(id)
        open("added", "w").close()
    def remove(self, id):
        self.calls.remove(id)
    def step(self, paused):
        return {}
`;
const STEPPER = `[batching.say]\nstepper = "Decoder"\n`;

for (const [how, toml, leaves] of [
  ["of the batch", "", "hold"],
  ["of a stepper beside it", STEPPER, "say"],
] as const)
  verifies(
    "batching.cancel",
    `a call ${how} that is cancelled while C code keeps the interpreter does not end the calls of the batch`,
    async () => {
      const clock = new HandClock();
      const pool = await testPool(
        { main: MAIN, toml: `[scaling]\nmax_replicas = 1\n[batching.hold]\n${toml}` },
        clock,
      );
      const busy = pool.submit("busy", {});
      await until("the replica is busy", () => pool.has("busy"));
      const pid = pool.ready[0]?.pid ?? 0;
      const said = leaves === "say" ? pool.submit("say", {}) : null;
      if (said) await until("its stepper has a call", () => pool.has("added"));
      const calls = [1, 2, 3].map((n) => pool.submit("hold", { n }));
      pool.leave("go");
      await busy.ended;
      await until("the batch runs", () => pool.has("held"));
      const leaving = said ?? calls.shift()!;
      pool.pool.slots.abandon(leaving.call, { kind: "cancelled" });
      clock.advance(20_000);
      expect(isAlive(pid)).toBe(true);
      writeFileSync(path.join(pool.bundleDir, "pipe"), "");
      const kinds = (await Promise.all(calls.map(({ ended }) => ended))).map(({ kind }) => kind);
      expect([kinds, pool.text("runs"), pool.exits]).toEqual([calls.map(() => "returned"), "3 ", []]);
    },
  );
