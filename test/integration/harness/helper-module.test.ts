import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Outcome } from "../../../src/model/outcome.ts";
import { Call } from "../../../src/replicas/call.ts";
import { returned, sharedPool, testPool, type TestPool } from "../../support/pool.ts";
import { findPythons } from "../../support/pythons.ts";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { noteFile, StreamCall } from "./stream-call.ts";

const MAIN = `
import contextvars, copy, pickle, sys, threading
import millrace

def outside():
    try:
        return millrace.run.id
    except RuntimeError as error:
        return str(error)

IMPORTED = outside()
HAD_CLIENT = "http.client" in sys.modules

def setup():
    global SET_UP
    SET_UP = outside()

def tell():
    return [millrace.run.id, millrace.run.attempt, millrace.run.deadline]

def beside():
    told = []
    context = contextvars.copy_context()
    copied = threading.Thread(target=lambda: told.append(context.run(outside)))
    bare = threading.Thread(target=lambda: told.append(outside()))
    for thread in (copied, bare):
        thread.start()
        thread.join()
    return told

def each(count):
    for _ in range(count):
        yield millrace.run.id

def before():
    return [IMPORTED, SET_UP, HAD_CLIENT]

def signs():
    signs = [millrace.SKIP, millrace.END]
    copies = [copy.copy, copy.deepcopy, lambda sign: pickle.loads(pickle.dumps(sign))]
    return [list(map(repr, signs)), [make(sign) is sign for make in copies for sign in signs]]

def client():
    import millrace_client
    return [millrace.Millrace is millrace_client.Millrace, millrace.TimedOut.__name__, hasattr(millrace, "nothing")]
`;

const ASYNC = `${MAIN}
import asyncio

async def tell():
    await asyncio.sleep(0.001)
    return await asyncio.create_task(told())

async def told():
    return [millrace.run.id, millrace.run.attempt, millrace.run.deadline]

async def each(count):
    for _ in range(count):
        await asyncio.sleep(0)
        yield millrace.run.id

async def beside():
    return [await asyncio.to_thread(outside), await asyncio.get_running_loop().run_in_executor(None, outside)]
`;

const OUTSIDE = "millrace.run is known only inside a run: this code was not called for one";

/** Makes a call that is not the first attempt. */
async function again(pool: TestPool, attempt: number): Promise<{ runId: string; result: unknown }> {
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  const call = new Call(randomUUID(), "tell", Buffer.from("{}"), { onEnd: resolve });
  call.attempt = attempt;
  pool.pool.slots.submit(call);
  return { runId: call.runId, result: returned(await promise) };
}

describe.each([
  ["one def at a time", MAIN, 1],
  ["several at a time", MAIN, 4],
  ["async def", ASYNC, 4],
])("millrace.run, %s", (_, main, concurrency) => {
  const toml = `[scaling]\nresponse_grace_period = 100\nmax_replicas = 1\nreplica_concurrency = ${concurrency}\n`;
  const shared = sharedPool({ main, toml });

  verifies("helper.run", "tells each call its own id, attempt and deadline", async () => {
    const beforeS = Date.now() / 1000;
    const calls = await Promise.all([1, 2, 3, 4, 5].map(async (attempt) => await again(shared(), attempt)));
    const afterS = Date.now() / 1000;
    for (const [index, { runId, result }] of calls.entries()) {
      const [id, attempt, deadline] = result as [string, number, number];
      expect([id, attempt]).toEqual([runId, index + 1]);
      expect(deadline).toBeGreaterThanOrEqual(beforeS + 100);
      expect(deadline).toBeLessThanOrEqual(afterS + 100.01);
    }
  });

  test("tells generators, and threads with a copy of the context", async () => {
    const streams = [1, 2, 3].map(() => new StreamCall(shared(), "each", { count: 50 }, true));
    for (const stream of streams) {
      await stream.end();
      expect(stream.values).toEqual(Array.from({ length: 50 }, () => `text ${stream.call.runId}`));
    }
    const { call, ended } = shared().submit("beside", {});
    expect(returned(await ended)).toEqual([call.runId, OUTSIDE]);
  });

  test("raises outside runs, and is imported without the client", async () => {
    expect(await shared().value("before", {})).toEqual([OUTSIDE, OUTSIDE, false]);
  });
});

verifies(
  "helper.signs",
  "SKIP and END are themselves however they are copied, and the client is there",
  async () => {
    const [python] = findPythons();
    const service = await testService({ app: { main: MAIN } }, python && { python: python.command });
    const call = async (functionName: string) =>
      (await service.call("app", {}, { functionName })).json.result;
    expect(await call("signs")).toEqual([
      ["millrace.SKIP", "millrace.END"],
      Array.from({ length: 6 }, () => true),
    ]);
    expect(await call("client")).toEqual([true, "TimedOut", false]);
  },
);

const TOGETHER = `
import os, time
import millrace

def told():
    try:
        return [millrace.run.id, millrace.run.attempt]
    except RuntimeError as error:
        return str(error)

def list_all(gate, run_id):
    while gate[0] and not os.path.exists(gate[0]):
        time.sleep(0.005)
    return [told() for _ in run_id]

def stream_all(gate):
    yield [told() for _ in gate]
    yield [millrace.END if each else told() for each in gate]
`;

verifies(
  "helper.run",
  "it tells a batch of one call of that call, and refuses to tell a larger one of any",
  async () => {
    const toml = "[scaling]\nmax_replicas = 1\n[batching.list_all]\n[batching.stream_all]\n";
    const pool = await testPool({ main: TOGETHER, toml });
    // Now the replica is ready: the next call does not wait for others.
    await pool.value("list_all", { gate: "" });
    const gate = noteFile();
    const first = pool.submit("list_all", { gate });
    await until("it runs", () => first.call.holder !== null);
    const others = [1, 2, 3].map(() => pool.submit("list_all", { gate: "" }));
    const streams = [1, 2].map((n) => new StreamCall(pool, "stream_all", { gate: n === 1 }, true));
    writeFileSync(gate, "");
    expect(returned(await first.ended)).toEqual([first.call.runId, 1]);
    const several = expect.stringMatching(/^millrace\.run is of one run, .* parameter run_id/) as string;
    for (const { ended } of others) expect(returned(await ended)).toEqual(several);
    for (const stream of streams) expect((await stream.end()).kind).toBe("streamed");
    expect(streams.map(({ values }) => values.length)).toEqual([1, 2]);
    expect(streams[1]?.values).toEqual([
      expect.stringContaining("text millrace.run"),
      expect.stringContaining("of one run"),
    ]);
  },
);

const WHICH = `
import os, sys, tempfile
installed = tempfile.mkdtemp()
with open(os.path.join(installed, "millrace.py"), "w") as file:
    file.write("WHOSE = 'installed'")
sys.path.append(installed)
import millrace

def run():
    return getattr(millrace, "WHOSE", "the harness's")
`;

verifies(
  "helper.order",
  "an installed millrace gives way to the harness's, and that to the bundle's own",
  async () => {
    const service = await testService({
      plain: { main: WHICH },
      own: { main: WHICH, files: { "millrace.py": 'WHOSE = "own"' } },
    });
    expect((await service.call("plain")).json.result).toBe("the harness's");
    expect((await service.call("own")).json.result).toBe("own");
  },
);
