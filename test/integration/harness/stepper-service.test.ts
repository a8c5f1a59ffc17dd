import { writeFileSync } from "node:fs";
import { expect } from "vitest";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { noteFile } from "./stream-call.ts";

const MAIN = `
import os
import millrace

class Decoder:
    """Says words."""

    capacity = 2

    def __init__(self):
        print("constructed")
        self.words = {}

    def add(self, id, words: list[str], gate: str = "", *, run_id):
        print("added", millrace.run.id == id == run_id)
        self.words[id] = [list(words), gate]

    def remove(self, id):
        del self.words[id]

    def step(self, paused):
        made = {}
        for id, (words, gate) in list(self.words.items()):
            if words:
                made[id] = words.pop(0)
            elif not gate or os.path.exists(gate):
                made[id] = millrace.END
                del self.words[id]
        return made

`;
const TOML = `[scaling]\nmax_replicas = 1\n[batching.say]\nstepper = "Decoder"\n`;

const service = sharedService({ app: { main: MAIN, toml: TOML } }, WITHOUT_WALLS);

verifies(
  "stepper.streams",
  "it streams to callers, and its runs in the background have the same body",
  async () => {
    const words = ["one", "two", "three"];
    const text = "data: one\n\ndata: two\n\ndata: three\n\n";
    const live = await service().call("app", { words }, { functionName: "say" });
    expect([live.status, live.headers.get("content-type"), live.text]).toEqual([
      200,
      "text/event-stream; charset=utf-8",
      text,
    ]);
    const accepted = await service().call("app", { words }, { functionName: "say", suffix: "?async=true" });
    expect(accepted.status).toBe(202);
    const result = async () => await service().ofRun("app", accepted.json.run_id, "result");
    await until("its run has ended", async () => (await result()).status === 200);
    expect((await result()).text).toBe(text);
    // What it prints when it takes a call belongs to that run, and what it prints when it is constructed to none.
    const runId = live.headers.get("x-request-id");
    await until("its line is here", () =>
      service().logs.some((line) => line.runId === runId && line.text === "added True"),
    );
    expect(service().logs.find((line) => line.text === "constructed")?.runId).toBeNull();
  },
);

verifies("stepper.signature", "its arguments are those of add, and its document says so", async () => {
  const answer = await service().call("app", { word: "one" }, { functionName: "say" });
  expect([answer.status, answer.json.code]).toEqual([422, "invalid_arguments"]);
  const signature = service().apps.get("app")?.pool.functions?.get("say");
  expect(signature).toMatchObject({ batch: "stepper", streams: true, isGenerator: true, doc: "Says words." });
  expect(signature?.parameters).toMatchObject([
    { name: "words", required: true, schema: { type: "array", items: { type: "string" } } },
    { name: "gate", required: false, default: "''" },
  ]);
});

verifies("stepper.misfit", "a class that cannot be a stepper is refused with what it lacks", async () => {
  const METHODS = "    def remove(self, id): pass\n    def step(self, paused): return {}\n";
  const ADD = "    def add(self, id, words): pass\n";
  const REFUSED = {
    missing: [
      "",
      /^TypeError: batching\.say\.stepper names the class Decoder, which main\.py does not have$/,
    ],
    function: ["def Decoder(): pass", /^TypeError: .* is no class in main\.py$/],
    both: [
      `class Decoder:\n    capacity = 1\n${ADD}${METHODS}\ndef say(words): pass`,
      /^TypeError: .* calls of say go to the class Decoder, but main\.py defines say too: remove one of the two$/,
    ],
    "no-add": [
      `class Decoder:\n    capacity = 1\n${METHODS}`,
      /^TypeError: Decoder .* needs a method add\(self, id, …\)/,
    ],
    "no-step": [
      `class Decoder:\n    capacity = 1\n${ADD}`,
      /^TypeError: Decoder .* needs a method remove\(self, id\)/,
    ],
    "no-id": [
      `class Decoder:\n    capacity = 1\n    def add(self): pass\n${METHODS}`,
      /^TypeError: Decoder\.add .* with the parameters self and id/,
    ],
    async: [
      `class Decoder:\n    capacity = 1\n    async def add(self, id): pass\n${METHODS}`,
      /^TypeError: Decoder\.add .* has to be a def, not an async def/,
    ],
    "no-capacity": [`class Decoder:\n${ADD}${METHODS}`, /^TypeError: Decoder .* needs an attribute capacity/],
    capacity: [
      `class Decoder:\n    capacity = 10_001\n${ADD}${METHODS}`,
      /^TypeError: Decoder\.capacity .* integer from 1 to 10000, but is 10001$/,
    ],
    raises: [
      `class Decoder:\n${ADD}${METHODS}    def __init__(self):\n        raise ValueError("no weights")`,
      /^ValueError: no weights$/,
    ],
  } as const;
  for (const [app, [code, message]] of Object.entries(REFUSED)) {
    await service().deploy(app, { main: `${code}\n`, toml: TOML });
    const answer = await service().call(app, { words: [] }, { functionName: "say" });
    expect([app, answer.status, answer.json.code]).toEqual([app, 503, "app_not_ready"]);
    expect(answer.json.message).toMatch(message);
  }
});

verifies(
  "stepper.drain",
  "a version that is replaced finishes the calls that its stepper has, and those that wait",
  async () => {
    const gate = noteFile();
    await service().deploy("old", { main: MAIN, toml: TOML });
    // More than it takes at a time.
    const calls = [1, 2, 3, 4].map((n) =>
      service().call("old", { words: [`${n}`], gate }, { functionName: "say" }),
    );
    const old = service().apps.get("old");
    await until("it has all that it takes", () =>
      [...(old?.pool.replicas ?? [])].some(({ calls: held }) => held.size === 2),
    );
    await service().deploy("old", { main: "def run(): return 'new'" });
    expect((await service().call("old")).json.result).toBe("new");
    writeFileSync(gate, "");
    const texts = (await Promise.all(calls)).map(({ text }) => text);
    expect(texts).toEqual([1, 2, 3, 4].map((n) => `data: ${n}\n\n`));
  },
);
