import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { bundleFile, cancel, ended, look, recordOf, submit } from "./site.ts";

const MAIN = `
import os
import threading
import time
import millrace

def stream_or_value(value):
    """An attempt that streams, and one that has only the end to tell."""
    if millrace.run.checkpoint is not None:
        return value
    def chunks():
        for n in range(3):
            yield n
        millrace.checkpoint(n)
        raise ValueError("again")
    return chunks()

def empty_then_value():
    if millrace.run.checkpoint is not None:
        return "value"
    millrace.checkpoint(1)
    raise ValueError("again")

def stubborn():
    while True:
        try:
            millrace.checkpoint(1)
            millrace.progress(0.5, "still here")
        except BaseException:
            pass

def stubborn_between():
    n = 0
    while True:
        try:
            millrace.checkpoint(n)
        except Exception:
            pass
        n += 1
        yield n

def bare_thread():
    said = []
    def work():
        for what in (lambda: millrace.checkpoint(1), lambda: millrace.run.id, lambda: millrace.progress(0.5)):
            try:
                said.append(repr(what()))
            except RuntimeError as error:
                said.append("RuntimeError")
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return said

def shows(gate):
    with open(gate + ".id", "w") as file:
        file.write(millrace.run.id)
    millrace.progress(0.25, "a quarter")
    while not os.path.exists(gate):
        time.sleep(0.005)
    return 1

def huge():
    for bad in (10 ** 400, -(10 ** 400)):
        millrace.progress(bad)
    return "ok"

class Text(str):
    def encode(self, *_):
        return b"x" * 5000
    def __getitem__(self, key):
        return self

def own_text():
    millrace.progress(0.5, Text("hello"))
    time.sleep(0.2)
    millrace.progress(0.5, "a" + chr(0) + "b" + chr(0xd800))
    return "ok"
`;

const ASYNC_MAIN = `
import asyncio
import millrace

async def gathers():
    async def one(n):
        await millrace.checkpoint(n)
    done = await asyncio.gather(*[one(n) for n in range(5)], return_exceptions=True)
    await millrace.checkpoint("last")
    return [type(each).__name__ for each in done]

async def impatient():
    late = 0
    for n in range(100):
        try:
            await asyncio.wait_for(millrace.checkpoint(n), 0)
        except (asyncio.TimeoutError, RuntimeError):
            late += 1
    for _ in range(1000):
        try:
            await millrace.checkpoint("last")
            return "stored"
        except RuntimeError:
            await asyncio.sleep(0.01)

async def stubborn():
    while True:
        try:
            await millrace.checkpoint(1)
        except BaseException:
            pass
`;

const RETRY = '[retry]\non = ["crash", "error"]\nmax_attempts = 20\ninitial_delay = 0\n';
const toml = (more: string): string => `[scaling]\nmax_replicas = 1\n${more}${RETRY}`;

const service = sharedService(
  {
    app: { main: MAIN, toml: toml("") },
    threads: { main: MAIN, toml: toml("replica_concurrency = 4\n") },
    looped: { main: ASYNC_MAIN, toml: toml("replica_concurrency = 4\n") },
  },
  WITHOUT_WALLS,
);

const run = async (app: string, functionName: string, body: unknown = {}) => {
  const id = await submit(service(), app, body, { functionName });
  return { id, run: await ended(service(), app, id) };
};

describe.each(["app", "threads"])("in %s", (app) => {
  verifies(
    "checkpoint.next-attempt",
    "a value that an attempt returns follows the chunks of those before it",
    async () => {
      const { id, run: record } = await run(app, "stream_or_value", { value: "the end" });
      expect(record).toMatchObject({ status: "success", attempt: 2, result: [0, 1, 2, "the end"] });
      const { text } = await look(service(), app, id, "/events");
      expect([...text.matchAll(/^id: (\d+)$/gm)].map(([, number]) => Number(number)).slice(0, 4)).toEqual([
        1, 2, 3, 4,
      ]);
    },
  );

  test("a value alone stays one", async () => {
    const { run: record } = await run(app, "empty_then_value");
    expect(record).toMatchObject({ status: "success", attempt: 2, result: "value" });
  });

  test("a thread without the context of a run is outside it", async () => {
    const { run: record } = await run(app, "bare_thread");
    expect(record).toMatchObject({ result: ["RuntimeError", "RuntimeError", "None"] });
  });

  test("fractions and texts of any kind end no replica", async () => {
    const before = await run(app, "own_text");
    expect(before.run).toMatchObject({ status: "success", attempt: 1 });
    expect((await run(app, "huge")).run).toMatchObject({ attempt: 1 });
  });

  verifies("progress.events", "readers of a run that a caller waits for get its progress", async () => {
    const gate = bundleFile(service(), app, `gate-${app}`);
    const calling = service().call(app, { gate }, { functionName: "shows" });
    await until("it runs", () => existsSync(`${gate}.id`) && readFileSync(`${gate}.id`).length === 36);
    const id = readFileSync(`${gate}.id`, "utf8");
    await until(
      "its record says",
      async () => (await recordOf(service(), app, id)).progress?.fraction === 0.25,
    );
    const reading = look(service(), app, id, "/events");
    writeFileSync(gate, "");
    expect((await calling).json.result).toBe(1);
    expect((await reading).text).toContain("event: end");
  });
});

test("of several at once in async code one is made, and the next after it", async () => {
  const { run: record } = await run("looped", "gathers");
  expect(record.result).toEqual(["NoneType", ...Array.from({ length: 4 }, () => "RuntimeError")]);
  expect((await run("looped", "impatient")).run).toMatchObject({ result: "stored" });
});

describe.each([
  ["app", "stubborn"],
  ["threads", "stubborn"],
  ["looped", "stubborn"],
  ["app", "stubborn_between"],
  ["threads", "stubborn_between"],
])("%s: %s", (app, functionName) => {
  verifies("checkpoint.cancelled", "a cancel ends it, and the app goes on", async () => {
    const id = await submit(service(), app, {}, { functionName });
    await until(
      "it makes checkpoints",
      async () => (await recordOf(service(), app, id)).checkpoint !== undefined,
    );
    await cancel(service(), app, id);
    expect(await ended(service(), app, id)).toMatchObject({ status: "cancelled" });
    expect((await run(app, app === "looped" ? "gathers" : "empty_then_value")).run.status).toBe("success");
  });
});
