import { writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { bundleFile, cancel, ended, look, recordOf, submit } from "./site.ts";

const MAIN = `
import asyncio
import os
import threading
import time
import millrace

def seen():
    run = millrace.run
    return [run.checkpoint, run.checkpoint_sent, run.sent, run.attempt]

def run(ways, value=None):
    found = seen()
    way = ways[millrace.run.attempt - 1]
    if way == "plain":
        return found
    millrace.checkpoint(value if value is not None else {"after": millrace.run.attempt, "text": "\\u00e9"})
    if way == "die":
        os._exit(3)
    if way == "raise":
        raise ValueError("again")
    return found

def count(to, every, deaths):
    """Goes on after what is stored; each attempt dies after its number of chunks."""
    attempt = millrace.run.attempt
    for n in range(millrace.run.sent + 1, to + 1):
        yield "chunk %d" % n
        if n % every == 0:
            millrace.checkpoint({"n": n})
        if attempt <= len(deaths) and n >= deaths[attempt - 1]:
            os._exit(3)

def anew(to):
    """Never makes a checkpoint."""
    for n in range(to):
        yield "%d of attempt %d, %r" % (n, millrace.run.attempt, seen())
    if millrace.run.attempt == 1:
        raise ValueError("again")

def refuses(what):
    values = {"set": {1}, "nan": float("nan"), "large": "x" * (1024 * 1024), "fits": "x" * (1024 * 1024 - 2)}
    try:
        millrace.checkpoint(values[what])
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)
    return "fits"

def in_thread():
    def work():
        for n in range(5):
            millrace.checkpoint(n)
    import contextvars
    threads = [threading.Thread(target=contextvars.copy_context().run, args=(work,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if millrace.run.attempt == 1:
        raise ValueError("again")
    return millrace.run.checkpoint

def late():
    """A thread that goes on after the call, and tells what becomes of its reports."""
    said = []
    def work():
        for n in range(200):
            millrace.progress(n / 200, "late")
            try:
                millrace.checkpoint(n)
            except RuntimeError as error:
                said.append(str(error))
                return
            except BaseException as error:
                said.append(type(error).__name__)
                return
    import contextvars
    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    time.sleep(0.05)
    return os.getpid()

def forked():
    child = os.fork()
    if child == 0:
        millrace.progress(0.5)
        try:
            millrace.checkpoint(1)
        except RuntimeError:
            os._exit(7)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def advance(gate):
    for n in range(10001):
        millrace.progress(n / 10000, "epoch %d" % n)
    while not os.path.exists(gate):
        time.sleep(0.005)

def forever():
    while True:
        millrace.checkpoint(1)

def odd():
    millrace.progress(7)
    time.sleep(0.2)
    millrace.progress(float("nan"), "x" * 2000)
    for bad in (("half",), (True,), (0.5, 3)):
        try:
            millrace.progress(*bad)
        except TypeError:
            continue
        return "no error"
    return "ok"

def batched(items: list) -> list:
    millrace.progress(0.5)
    try:
        millrace.checkpoint(1)
    except RuntimeError as error:
        return [str(error)] * len(items)
`;

const ASYNC_MAIN = `
import asyncio
import millrace

async def run():
    ticks = 0
    done = False
    async def tick():
        nonlocal ticks
        while not done:
            ticks += 1
            await asyncio.sleep(0)
    ticking = asyncio.create_task(tick())
    await millrace.checkpoint({"attempt": millrace.run.attempt})
    done = True
    await ticking
    if millrace.run.attempt == 1:
        raise ValueError("again")
    return [millrace.run.checkpoint, ticks > 1]

async def count(to):
    for n in range(millrace.run.sent + 1, to + 1):
        yield n
        if n % 10 == 0:
            await millrace.checkpoint(n)
        if n % 35 == 0:
            raise ValueError("again")

async def forever():
    while True:
        await millrace.checkpoint(1)

async def twice():
    first = millrace.checkpoint(1)
    try:
        millrace.checkpoint(2)
    except RuntimeError as error:
        await first
        return str(error)

def plain():
    millrace.checkpoint([1])
    if millrace.run.attempt == 1:
        raise ValueError("again")
    return millrace.run.checkpoint
`;

const RETRY = '[retry]\non = ["crash", "error"]\nmax_attempts = 20\ninitial_delay = 0\n';
const toml = (more: string): string => `[scaling]\nmax_replicas = 1\n${more}${RETRY}`;

const service = sharedService(
  {
    app: { main: MAIN, toml: toml("") },
    threads: { main: MAIN, toml: toml("replica_concurrency = 4\n") },
    looped: { main: ASYNC_MAIN, toml: toml("replica_concurrency = 4\n") },
    batched: { main: MAIN, toml: `${toml("")}[batching.batched]\nmax_size = 4\n` },
  },
  WITHOUT_WALLS,
);

type Message = { readonly id: string | null; readonly event: string | null; readonly data: string };

/** The messages of an event stream. */
function messagesIn(text: string): Message[] {
  return text.split("\n\n").flatMap((block): Message[] => {
    const field = (name: string): string | null =>
      new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1] ?? null;
    const data = field("data");
    return data === null ? [] : [{ id: field("id"), event: field("event"), data }];
  });
}

const chunksIn = (text: string) =>
  messagesIn(text)
    .filter(({ event }) => event === null)
    .map(({ id, data }) => [Number(id), data]);

const counted = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => [from + i, `chunk ${from + i}`]);

verifies(
  "checkpoint.next-attempt",
  "the next attempt reads the last checkpoint, after an exception and after a crash",
  async () => {
    const id = await submit(service(), "app", { ways: ["raise", "die", "plain"] });
    const run = await ended(service(), "app", id);
    expect(run).toMatchObject({ status: "success", attempt: 3 });
    expect(run.result).toEqual([{ after: 2, text: "é" }, 0, 0, 3]);
    expect(run.checkpoint).toMatchObject({ sent: 0, attempt: 2 });
    expect(Date.parse(run.checkpoint?.at ?? "")).toBeGreaterThan(Date.parse(run.createdAt));
  },
);

verifies("checkpoint.unused", "a run without a checkpoint begins anew, and numbers from 1", async () => {
  const id = await submit(service(), "app", { to: 3 }, { functionName: "anew" });
  const run = await ended(service(), "app", id);
  expect(run.result).toEqual([0, 1, 2].map((n) => `${n} of attempt 2, [None, 0, 0, 2]`));
  expect(run).not.toHaveProperty("checkpoint");
  expect(run).not.toHaveProperty("progress");
});

describe.each(["app", "threads"])("a generator of %s that continues after what is stored", (app) => {
  verifies(
    ["checkpoint.exactly-once", "checkpoint.stored-first"],
    "gives connected readers each chunk once, in order, however often it dies",
    async () => {
      const deaths = [3, 20, 20, 91];
      const id = await submit(service(), app, { to: 100, every: 7, deaths }, { functionName: "count" });
      const reading = look(service(), app, id, "/events");
      const run = await ended(service(), app, id);
      expect(run).toMatchObject({ status: "success" });
      expect(run.result).toEqual(counted(1, 100).map(([, text]) => text));
      // The first attempt has made no checkpoint: the second one begins anew.
      const seen = chunksIn((await reading).text);
      expect(seen.slice(-93)).toEqual(counted(8, 100));
      expect(run.checkpoint).toMatchObject({ sent: 98 });
      for (const after of [0, 20, 55, 99]) {
        const later = await look(service(), app, id, "/events", { "last-event-id": String(after) });
        expect(chunksIn(later.text)).toEqual(counted(after + 1, 100));
      }
    },
  );
});

verifies(
  "checkpoint.sync",
  "a call and a stream that a caller waits for go on, and store nothing",
  async () => {
    const answer = await service().call("app", { ways: ["checkpoint"], value: [1] });
    expect(answer.json.result).toEqual([null, 0, 0, 1]);
    const stream = await service().call("app", { to: 20, every: 5, deaths: [] }, { functionName: "count" });
    expect(stream.text).toBe(
      counted(1, 20)
        .map(([, text]) => `data: ${text}\n\n`)
        .join(""),
    );
  },
);

verifies("checkpoint.refused", "what cannot be stored is an exception that says why", async () => {
  const refused = async (what: string): Promise<unknown> => {
    const id = await submit(service(), "app", { what }, { functionName: "refuses" });
    return (await ended(service(), "app", id)).result;
  };
  expect(await refused("set")).toBe("TypeError: checkpoint is of type set, which JSON cannot hold");
  expect(await refused("nan")).toBe("TypeError: checkpoint is nan, which JSON cannot hold");
  expect(await refused("large")).toBe(
    "ValueError: the checkpoint is 1048578 bytes of JSON, at most 1048576 fit",
  );
  expect(await refused("fits")).toBe("fits");
});

verifies("checkpoint.refused", "batched functions have none", async () => {
  const id = await submit(service(), "batched", { items: 1 }, { functionName: "batched" });
  expect((await ended(service(), "batched", id)).result).toBe(
    "millrace.checkpoint is not for batched functions and steppers",
  );
});

test.each(["app", "threads"])("threads of a call of %s make checkpoints in turn", async (app) => {
  const id = await submit(service(), app, {}, { functionName: "in_thread" });
  expect(await ended(service(), app, id)).toMatchObject({ status: "success", result: 4 });
});

test.each(["app", "threads"])("a thread of %s that outlives its call harms nothing", async (app) => {
  const first = await submit(service(), app, {}, { functionName: "late" });
  const { result: pid } = await ended(service(), app, first);
  const second = await submit(service(), app, {}, { functionName: "late" });
  expect(await ended(service(), app, second)).toMatchObject({ status: "success", attempt: 1, result: pid });
});

test("a child that the function forks cannot make one, and lives on", async () => {
  const id = await submit(service(), "app", {}, { functionName: "forked" });
  expect(await ended(service(), "app", id)).toMatchObject({ status: "success", result: 7 });
});

describe("async functions", () => {
  verifies("checkpoint.async", "await their checkpoints, while the event loop goes on", async () => {
    const id = await submit(service(), "looped");
    expect(await ended(service(), "looped", id)).toMatchObject({
      attempt: 2,
      result: [{ attempt: 1 }, true],
    });
    const stream = await submit(service(), "looped", { to: 100 }, { functionName: "count" });
    const reading = look(service(), "looped", stream, "/events");
    expect(await ended(service(), "looped", stream)).toMatchObject({ status: "success", attempt: 3 });
    expect(chunksIn((await reading).text)).toEqual(counted(1, 100).map(([n]) => [n, String(n)]));
  });

  test("make one at a time", async () => {
    const id = await submit(service(), "looped", {}, { functionName: "twice" });
    expect(await ended(service(), "looped", id)).toMatchObject({
      result: "the checkpoint before this one is still being stored: await it first",
    });
    const plain = await submit(service(), "looped", {}, { functionName: "plain" });
    expect(await ended(service(), "looped", plain)).toMatchObject({ attempt: 2, result: [1] });
  });
});

verifies(
  ["progress.record", "progress.events"],
  "the newest report of many is on the record, and comes as an event without a number",
  async () => {
    const gate = `gate-${Date.now()}`;
    const id = await submit(service(), "app", { gate }, { functionName: "advance" });
    const reading = look(service(), "app", id, "/events");
    await until("the last report is on the record", async () => {
      const { progress } = await recordOf(service(), "app", id);
      return progress?.fraction === 1 && progress.message === "epoch 10000";
    });
    writeFileSync(bundleFile(service(), "app", gate), "");
    const run = await ended(service(), "app", id);
    expect(run.progress).toMatchObject({ fraction: 1, message: "epoch 10000" });
    const messages = messagesIn((await reading).text);
    const reports = messages.filter(({ event }) => event === "progress");
    expect(reports.length).toBeGreaterThan(0);
    expect(new Set(reports.map((report) => report.id))).toEqual(new Set([null]));
    const fractions = reports.map(({ data }) => (JSON.parse(data) as { fraction: number }).fraction);
    expect(fractions).toEqual(fractions.toSorted((a, b) => a - b));
    expect(messages.at(-1)?.event).toBe("end");
  },
);

verifies("progress.bounded", "a report is cut to its bounds, and no report fails the run", async () => {
  const id = await submit(service(), "app", {}, { functionName: "odd" });
  const run = await ended(service(), "app", id);
  expect(run.result).toBe("ok");
  expect(run.progress).toMatchObject({ fraction: null, message: "x".repeat(500) });
  expect((await service().call("app", {}, { functionName: "odd" })).json.result).toBe("ok");
});

verifies("checkpoint.cancelled", "a run that makes checkpoints can be cancelled", async () => {
  for (const app of ["app", "threads", "looped"]) {
    const id = await submit(service(), app, {}, { functionName: "forever" });
    await until("it makes them", async () => (await recordOf(service(), app, id)).checkpoint !== undefined);
    await cancel(service(), app, id);
    expect(await ended(service(), app, id)).toMatchObject({ status: "cancelled" });
  }
  expect((await service().call("app", { ways: ["plain"] })).json.result).toEqual([null, 0, 0, 1]);
});
