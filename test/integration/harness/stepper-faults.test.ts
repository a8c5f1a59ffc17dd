import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { expect } from "vitest";
import { sharedPool } from "../../support/pool.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { noteFile, StreamCall } from "./stream-call.ts";

const MAIN = `
import os, sys, time
import millrace

class Posing:
    __class__ = ValueError

class Decoder:
    capacity = 8

    def __init__(self):
        self.calls = {}

    def add(self, id, what: str, gate: str = "", note: str = ""):
        with open("added.txt", "a") as file:
            file.write(what + "\\n")
        if what == "die at once":
            os._exit(3)
        self.calls[id] = [what, gate, note]

    def remove(self, id):
        what, _, _ = self.calls.pop(id)
        if what == "no remove":
            raise ValueError("it is not removed")

    def step(self, paused):
        made = {}
        for id, (what, gate, note) in list(self.calls.items()):
            if note:
                open(note, "w").close()
            if gate and not os.path.exists(gate):
                made[id] = "waits" if what == "die" else millrace.SKIP
                if what == "die":
                    time.sleep(0.01)
            elif what == "die":
                os._exit(3)
            elif what == "posing":
                made[id] = Posing()
                self.calls[id] = ["end", "", ""]
            elif what == "hang":
                while True:
                    time.sleep(0.05)
            elif what == "mute":
                sys.stderr = None
                made[id] = "muted"
                made[b"nobody"] = 1
                self.calls[id] = ["end", "", ""]
            elif what == "end":
                made[id] = millrace.END
                del self.calls[id]
            else:
                made[id] = what
                self.calls[id] = ["end", "", ""]
        return made

def poison(note):
    with open(note, "a") as file:
        file.write("x")
    while not os.path.exists(note + ".go"):
        time.sleep(0.005)
    os._exit(4)
`;
const TOML = `[scaling]\nmax_replicas = 1\nreplica_concurrency = 1\nresponse_grace_period = "5s"\n[batching.say]\nstepper = "Decoder"\n`;

const shared = sharedPool({ main: MAIN, toml: TOML });
const say = (what: string, more: object = {}): StreamCall =>
  new StreamCall(shared(), "say", { what, ...more }, true);
const added = (what: string): number =>
  shared()
    .text("added.txt")
    .split("\n")
    .filter((line) => line === what).length;

verifies(
  "stepper.crash",
  "a process that dies ends the streams that it had, none of which runs again",
  async () => {
    const gate = noteFile();
    const calls = Array.from({ length: 4 }, () => say("die", { gate }));
    for (const call of calls) await call.has(1);
    writeFileSync(gate, "");
    const outcomes = await Promise.all(calls.map(async (call) => await call.end()));
    expect(outcomes.map(({ kind }) => kind)).toEqual(["died", "died", "died", "died"]);
    expect(calls.map(({ streams }) => streams)).toEqual([1, 1, 1, 1]);
    expect(added("die")).toBe(4);
  },
);

verifies("stepper.crash", "a call whose add ends the process ends, behind other calls too", async () => {
  const [gate, note] = [noteFile(), noteFile()];
  const kept = ["one", "two"].map((what) => say(what, { gate, note }));
  await until("the others run", () => kept.every(({ streams }) => streams === 1));
  expect((await say("die at once").end()).kind).toBe("died");
  expect((await Promise.all(kept.map(async (call) => await call.end()))).map(({ kind }) => kind)).toEqual([
    "died",
    "died",
  ]);
  expect(added("die at once")).toBe(1);
});

verifies("stepper.crash", "a call beside a stepper that ends the process ends", async () => {
  const [gate, note] = [noteFile(), noteFile()];
  const others = ["one", "two"].map((what) => say(what, { gate }));
  await until("the others run", () => others.every(({ streams }) => streams === 1));
  const { ended } = shared().submit("poison", { note });
  await until("it runs", () => shared().ready[0]?.calls.size === 3);
  writeFileSync(`${note}.go`, "");
  expect((await ended).kind).toBe("died");
  for (const other of others) expect((await other.end()).kind).toBe("died");
  expect(readFileSync(note, "utf8")).toBe("x");
});

verifies("stepper.failures", "a chunk that only poses as an exception fails its call alone", async () => {
  const gate = noteFile();
  const kept = say("kept", { gate });
  expect(await say("posing").end()).toMatchObject({ kind: "unsendable", code: "result_not_json" });
  writeFileSync(gate, "");
  expect((await kept.end()).kind).toBe("streamed");
  expect(kept.values).toEqual(["text kept"]);
});

verifies("stepper.failures", "an app without stderr keeps its stepper", async () => {
  const before = shared().exits.length;
  expect((await say("mute").end()).kind).toBe("streamed");
  const [gate, note] = [noteFile(), noteFile()];
  const left = say("no remove", { gate, note });
  await until("it runs", () => left.streams === 1);
  left.cancel();
  await until("it is over", () => shared().ready[0]?.calls.size === 0);
  expect((await say("after").end()).kind).toBe("streamed");
  expect(shared().exits.length).toBe(before);
});

verifies(
  "stepper.hang",
  "a step that never returns ends its replica when a call got no turn for its whole time",
  async () => {
    const [note, before] = [noteFile(), shared().exits.length];
    const held = say("hang", { note });
    await until("its step has begun", () => existsSync(note));
    const waiting = say("later");
    expect(await held.end()).toMatchObject({ kind: "timed_out" });
    expect(await waiting.end()).toMatchObject({ kind: "timed_out" });
    await until("the process has ended", () => shared().exits.length > before);
    expect((await say("after").end()).kind).toBe("streamed");
  },
);
