import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { SkippingClock } from "../../support/clocks.ts";
import { findPythons } from "../../support/pythons.ts";
import { read } from "../../support/harness-signatures.ts";
import { type Answer, testService, WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import os, time
from millrace import END

def hold(name):
    open(name, "w").close()
    while not os.path.exists(name + ".go"):
        time.sleep(0.005)

def embed(text: list[str], run_id: list[str]):
    print("embedding", len(text))
    if "print and raise" in text:
        raise ValueError(text[0])
    if "die" in text:
        os._exit(3)
    return [{"text": each, "size": len(text), "run_id": run} for each, run in zip(text, run_id)]

def slow(n: list[int]):
    open("slow", "w").close()
    while not os.path.exists("slow.go"):
        time.sleep(0.005)
    return n

def count(n: list[int]):
    for step in range(1, max(n) + 2):
        yield [END if step > each else step for each in n]
`;
const toml = `
[scaling]
max_replicas = 1
max_queue_seconds = 43200
response_grace_period = 600
[batching.embed]
[batching.slow]
[batching.count]
`;

const clock = new SkippingClock();
const service = sharedService({ app: { main: MAIN, toml } }, WITHOUT_WALLS, { clock });
const file = (name: string): string => path.join(service().bundleDir("app"), name);
let holds = 0;

/** Makes calls while the replica is busy, so that they leave together. */
async function together(functionName: string, bodies: readonly object[], suffix = ""): Promise<Answer[]> {
  const name = `hold-${holds++}`;
  const holder = service().call("app", { name }, { functionName: "hold" });
  await until("the replica is busy", () => existsSync(file(name)));
  const { pool } = service().apps.get("app")!;
  const calls: Promise<Answer>[] = [];
  for (const body of bodies) {
    calls.push(service().call("app", body, { functionName, suffix }));
    await until("it waits behind the others", () => pool.slots.waiting === calls.length);
  }
  writeFileSync(file(`${name}.go`), "");
  await holder;
  return await Promise.all(calls);
}

verifies(
  "batching.lists",
  "calls over HTTP share a batch, and each gets its own answer and record",
  async () => {
    const texts = ["one", "two", "three", "four"];
    const answers = await together(
      "embed",
      texts.map((text) => ({ text })),
    );
    for (const [index, { status, json }] of answers.entries()) {
      expect([status, json.result]).toEqual([200, { text: texts[index], size: 4, run_id: json.run_id }]);
      const record = await service().ofRun("app", json.run_id);
      expect(record.json).toMatchObject({ status: "success", batchSize: 4 });
    }
    const misfit = await together("embed", [{ text: "a" }, { txt: "b" }, {}]);
    expect(misfit.map(({ status }) => status)).toEqual([200, 422, 422]);
  },
);

verifies("batching.log", "lines are of the first call, and tracebacks of each call that failed", async () => {
  const answers = await together(
    "embed",
    ["print and raise", "fine"].map((text) => ({ text })),
  );
  expect(answers.map(({ status }) => status)).toEqual([500, 200]);
  const [failed = "", fine = ""] = answers.map(({ headers }) => headers.get("x-request-id") ?? "");
  const of = (runId: string, stream: string): string[] =>
    service().logs.flatMap((line) => (line.runId === runId && line.stream === stream ? [line.text] : []));
  await until("the lines are here", () => of(fine, "stdout").length > 0 && of(failed, "stderr").length > 3);
  expect(of(failed, "stdout")).toEqual(["embedding 2", "embedding 1"]);
  expect(of(fine, "stdout")).toEqual(["embedding 1"]);
  expect([of(failed, "stderr").at(-1), of(fine, "stderr")]).toEqual(["ValueError: print and raise", []]);
});

verifies("batching.stream", "calls of a batched generator stream to their own callers", async () => {
  const counts = [3, 0, 5];
  const answers = await together(
    "count",
    counts.map((n) => ({ n })),
  );
  const events = (n: number): string => Array.from({ length: n }, (_, i) => `data: ${i + 1}\n\n`).join("");
  expect(answers.map(({ text }) => text)).toEqual(counts.map(events));
});

verifies("batching.crash", "a call that ends its process ends alone: the others run again", async () => {
  const answers = await together(
    "embed",
    ["a", "die", "b"].map((text) => ({ text })),
  );
  expect(answers.map(({ status }) => status)).toEqual([200, 502, 200]);
  expect(answers.map(({ json }) => json.result?.size)).toEqual([1, undefined, 1]);
});

verifies("batching.cancel", "the time limit ends the calls of a batch, and stops its code", async () => {
  const calls = together("slow", [{ n: 1 }, { n: 2 }]);
  await until("it runs", () => existsSync(file("slow")));
  clock.skip(600_000);
  expect((await calls).map(({ status, json }) => [status, json.code])).toEqual([
    [504, "timed_out"],
    [504, "timed_out"],
  ]);
  const answer = await service().call("app", { text: "after" }, { functionName: "embed" });
  expect(answer.json.result).toMatchObject({ text: "after" });
});

verifies(
  "batching.own-answer",
  "asynchronous calls of a batch have their own records, also across a deploy",
  async () => {
    const answers = await together(
      "embed",
      ["x", "y"].map((text) => ({ text })),
      "?async=true",
    );
    expect(answers.map(({ status }) => status)).toEqual([202, 202]);
    for (const [index, { json }] of answers.entries()) {
      const result = async () => (await service().ofRun("app", json.run_id, "result")).json;
      await until(
        "it is over",
        async () => (await service().ofRun("app", json.run_id)).json.status === "success",
      );
      expect(await result()).toMatchObject({ result: { text: ["x", "y"][index], run_id: json.run_id } });
    }
  },
);

verifies(
  "batching.own-answer",
  "calls of a batch that runs during a deploy are answered by its version",
  async () => {
    const test = await testService({ app: { main: MAIN, toml } }, WITHOUT_WALLS);
    const before = test.bundleDir("app");
    const calls = [1, 2, 3].map((n) => test.call("app", { n }, { functionName: "slow" }));
    await until("it runs", () => existsSync(path.join(before, "slow")));
    await test.deploy("app", { main: `${MAIN}\nVERSION = 2\n`, toml });
    writeFileSync(path.join(before, "slow.go"), "");
    for (const [index, answer] of (await Promise.all(calls)).entries())
      expect([answer.status, answer.json.result]).toEqual([200, index + 1]);
  },
);

verifies(
  "batching.table",
  "a table that does not fit the functions of main.py fails the start, and says why",
  async () => {
    const REFUSED = {
      "[batching.other]": "TypeError: [batching.other]: main.py has no function other that can be called",
      '[batching.run]\nkey = "model"':
        'TypeError: [batching.run] has key = "model", but run() in main.py has no parameter of that name',
      '[batching.run]\nsize = "run_id"':
        'TypeError: [batching.run] has size = "run_id", but run() in main.py has no parameter of that name',
      "[batching.rest]":
        "TypeError: [batching.rest]: rest() in main.py cannot take lists of any arguments: name them in place of **more",
      "[batching.setup]": "TypeError: [batching.setup]: main.py has no function setup that can be called",
    };
    const main = "def run(n, run_id): return n\ndef rest(n, **more): return n\ndef setup(): pass\n";
    for (const [table, message] of Object.entries(REFUSED)) {
      const name = await service().own({ main, toml: `${table}\n` });
      const answer = await service().call(name, { n: 1 });
      expect([table, answer.status, answer.json.code, answer.json.message]).toEqual([
        table,
        503,
        "app_not_ready",
        message,
      ]);
    }
  },
);

for (const { command, version } of findPythons())
  verifies("batching.schema", `on Python ${version} the signature is that of one call`, () => {
    const main = `
from typing import *
from millrace_worker.signs import Sign
def lists(a: list[int], b: List[Optional[str]] = None, c: "Sequence[Annotated[int, 'so many']]" = 3, d: Tuple[float, ...] = (), run_id: list[str] = None) -> list[float]: pass
def unknown(a: list, b: int, c, d: dict[str, int] = {}, e: "nowhere.List[int]" = 1) -> str: pass
def failing(a: list[int]) -> List[Union[str, ValueError]]: pass
def stream(a: list[int]) -> Iterator[list[Union[str, Sign, Exception]]]: yield [a]
async def later(a: list[int]) -> AsyncIterator[list[str]]: yield [a]
def plain(a: list[int]) -> list[str]: pass
`;
    const told = read(command, main, ["lists", "unknown", "failing", "stream", "later"]);
    expect(told.get("lists")).toMatchObject({
      batch: "list",
      returns: { type: "number" },
      parameters: [
        { name: "a", annotation: "int", schema: { type: "integer" } },
        { name: "b", schema: { anyOf: [{ type: "string" }, { type: "null" }], default: null } },
        { name: "c", schema: { type: "integer", description: "so many", default: 3 } },
        { name: "d", annotation: "float", schema: { type: "number", default: [] } },
      ],
    });
    expect(told.get("lists")?.parameters).toHaveLength(4);
    const unknown = told.get("unknown");
    expect(unknown?.returns).toEqual({});
    expect(unknown?.parameters.map(({ annotation }) => annotation)).toEqual(Array(5).fill(null));
    expect(unknown?.parameters.map(({ schema }) => schema)).toEqual([{}, {}, {}, { default: {} }, {}]);
    for (const name of ["failing", "stream", "later"])
      expect(told.get(name)?.returns).toEqual({ type: "string" });
    expect(told.get("stream")?.streams).toBe(true);
    expect(told.get("plain")).toMatchObject({
      returns: { type: "array" },
      parameters: [{ annotation: "list[int]" }],
    });
    expect(told.get("plain")?.batch).toBeUndefined();
  });
