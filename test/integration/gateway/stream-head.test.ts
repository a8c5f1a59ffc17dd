import { Agent, request } from "node:http";
import { describe, expect, test } from "vitest";
import { HandClock } from "../../support/clocks.ts";
import { WAIT_FOR, letGo } from "../../support/run-apps.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openStream, type StreamOptions } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `${WAIT_FOR}
def run(values=("one", "two")):
    for value in values:
        yield value

def gated(before=None, after=None):
    if before:
        wait_for(before)
    yield "first"
    if after:
        wait_for(after)

def empty():
    return
    yield

def raises(gate=None):
    if gate:
        wait_for(gate)
    raise ValueError("before the first")
    yield

def unsendable():
    yield {1, 2}

def iterator():
    return iter(["x", "y"])

def mapped():
    return map(str, range(3))

class Countdown:
    def __init__(self):
        self.left = 3
    def __iter__(self):
        return self
    def __next__(self):
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        return self.left

def custom():
    return Countdown()

def listed():
    return ["x", "y"]
`;

const ASYNC = `
async def run():
    yield "x"
    yield "y"

async def iterator():
    return iter(["x", "y"])

async def generator():
    return (letter for letter in "xy")

async def plain():
    return "at once"
`;

const HEAD_AFTER_MS = 1_000;

const clock = new HandClock();
const service = sharedService(
  { app: { main: MAIN, toml: "[scaling]\nmax_replicas = 2\n" }, looped: { main: ASYNC } },
  {},
  { clock },
);
const stream = (functionName: string, body: object = {}, options: StreamOptions = {}) =>
  openStream(service(), "app", body, { functionName, ...options });

const COMMON = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache",
  "transfer-encoding": "chunked",
  vary: "Accept-Encoding",
  "x-request-id": expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/) as string,
  "x-accel-buffering": "no",
  "server-timing": expect.stringMatching(/^queue;dur=[\d.]+, start;dur=[\d.]+$/) as string,
  date: expect.any(String) as string,
  connection: "keep-alive",
  "keep-alive": "timeout=65",
};

describe("the head of a stream", () => {
  verifies(
    ["stream.headers", "stream.accel-buffering", "stream.gzip"],
    "is 200 with exactly the headers promised, each once, plain and gzip",
    async () => {
      for (const [accepted, more] of [
        ["identity", {}],
        ["gzip", { "content-encoding": "gzip" }],
      ] as const) {
        const headers = { "accept-encoding": accepted };
        const reader = stream("gated", { after: accepted }, { headers });
        const { status, fields } = await reader.hasHead();
        expect(status).toBe(200);
        expect(Object.fromEntries(fields.map(([name, value]) => [name.toLowerCase(), value]))).toEqual({
          ...COMMON,
          ...more,
        });
        expect(fields).toHaveLength(Object.keys({ ...COMMON, ...more }).length);
        letGo(service(), "app", accepted);
        await reader.ended();
        expect([reader.isWhole, reader.data]).toEqual([true, ["first"]]);
        expect(reader.hasMember).toBe(accepted === "gzip");
        reader.leave();
      }
    },
  );

  verifies("stream.gzip", "says gzip when the caller accepts it, in any way of saying so", async () => {
    const asked: [string | null, string | null][] = [
      [null, null],
      ["", null],
      ["identity", null],
      ["br, deflate", null],
      ["gzip;q=0", null],
      ["gzip; q=0.000", null],
      ["*, gzip;q=0", null],
      ["*;q=0", null],
      ["gzip", "gzip"],
      ["GZIP", "gzip"],
      ["br, gzip;q=0.1", "gzip"],
      ["gzip, deflate, br, zstd", "gzip"],
      ["*", "gzip"],
      ["identity;q=0.5, *;q=0.1", "gzip"],
    ];
    for (const [accepted, encoding] of asked) {
      const reader = stream("run", {}, { headers: accepted === null ? {} : { "accept-encoding": accepted } });
      await reader.ended();
      expect([accepted, reader.header("content-encoding"), reader.data]).toEqual([
        accepted,
        encoding,
        ["one", "two"],
      ]);
      expect(reader.header("vary")).toBe("Accept-Encoding");
      reader.leave();
    }
  });

  /** Lets time pass until a millisecond before the head leaves in any case. */
  async function passAlmost(readers: number): Promise<void> {
    await clock.sets(HEAD_AFTER_MS, readers);
    clock.advance(HEAD_AFTER_MS - 1);
    // What had been sent then would have come before this answer.
    await service().call("looped", {}, { functionName: "plain" });
  }

  verifies("stream.first-headers", "leaves with the first chunk, not before", async () => {
    const reader = stream("gated", { before: "chunk", after: "never" });
    await passAlmost(1);
    expect(reader.head).toBeNull();
    letGo(service(), "app", "chunk");
    await reader.hasMessages(1);
    reader.leave();
    // Code that is told to stop is given 5 s of the clock that other tests move.
    const replicas = () => [...(service().apps.get("app")?.pool.replicas ?? [])];
    await until("its slot is free", () => replicas().every(({ calls }) => calls.size === 0));
  });

  verifies("stream.first-headers", "leaves after 1 s when nothing was yielded until then", async () => {
    const headers = { "accept-encoding": "gzip" };
    const body = { before: "second" };
    const readers = [stream("gated", body), stream("gated", body, { headers })];
    await passAlmost(2);
    expect(readers.map(({ head }) => head)).toEqual([null, null]);
    clock.advance(1);
    for (const reader of readers) expect((await reader.hasHead()).status).toBe(200);
    letGo(service(), "app", "second");
    for (const reader of readers) {
      expect((await reader.ended()).data).toEqual(["first"]);
      expect(reader.isWhole).toBe(true);
      reader.leave();
    }
  });

  verifies("stream.early-exception", "is an ordinary status when an exception comes before it", async () => {
    for (const [functionName, body, status, code] of [
      ["raises", {}, 500, "app_error"],
      ["raises", { gate: "raises" }, 500, "app_error"],
      ["unsendable", {}, 500, "result_not_json"],
      ["run", { other: 1 }, 422, "invalid_arguments"],
    ] as const) {
      const reader = stream(functionName, body, { headers: { "accept-encoding": "gzip" } });
      if ("gate" in body) {
        await passAlmost(1);
        letGo(service(), "app", body.gate);
      }
      await reader.ended();
      expect([functionName, reader.head?.status, reader.header("content-type")]).toEqual([
        functionName,
        status,
        "application/json",
      ]);
      expect([reader.header("transfer-encoding"), reader.header("content-encoding")]).toEqual([null, null]);
      expect(JSON.parse(reader.text)).toMatchObject({ code, request_id: reader.runId });
      expect(reader.header("x-should-retry")).toBe(status === 500 ? "false" : null);
      reader.leave();
    }
  });

  test("of a generator that ends at once is that of an empty stream, plain and gzip", async () => {
    for (const headers of [{}, { "accept-encoding": "gzip" }]) {
      const reader = await stream("empty", {}, { headers }).ended();
      expect([reader.head?.status, reader.isWhole, reader.text]).toEqual([200, true, ""]);
      expect(reader.header("content-type")).toBe("text/event-stream; charset=utf-8");
      expect(reader.hasMember).toBe("accept-encoding" in headers);
      // The run was over when it left.
      expect(reader.header("server-timing")).toMatch(/, run;dur=[\d.]+$/);
      reader.leave();
    }
  });

  test("lets a page of another origin read", async () => {
    const reader = await stream("run", {}, { headers: { origin: "https://one.example" } }).ended();
    expect(reader.header("access-control-allow-origin")).toBe("*");
    expect(reader.header("access-control-expose-headers")).toContain("X-Request-Id");
    reader.leave();
  });
});

describe("what streams", () => {
  verifies("stream.sources", "generators, async generators and returned iterators", async () => {
    for (const [app, functionName, data] of [
      ["app", "run", ["one", "two"]],
      ["app", "iterator", ["x", "y"]],
      ["app", "mapped", ["0", "1", "2"]],
      ["app", "custom", ["2", "1", "0"]],
      ["looped", "run", ["x", "y"]],
      ["looped", "iterator", ["x", "y"]],
      ["looped", "generator", ["x", "y"]],
    ] as const) {
      const reader = await openStream(service(), app, {}, { functionName }).ended();
      expect([functionName, reader.data]).toEqual([functionName, data]);
      reader.leave();
    }
    const { json, headers } = await service().call("app", {}, { functionName: "listed" });
    expect([json.result, headers.get("content-type")]).toEqual([["x", "y"], "application/json"]);
  });

  verifies(
    ["stream.accept-ignored", "run.prefer.streams"],
    "a generator, whatever Accept and Prefer say",
    async () => {
      for (const accept of ["application/json", "text/event-stream;q=0", "text/event-stream"]) {
        const reader = await stream("run", {}, { headers: { accept } }).ended();
        expect([accept, reader.head?.status, reader.data]).toEqual([accept, 200, ["one", "two"]]);
        reader.leave();
      }
      const busy = [0, 1].map(() => stream("gated", { after: "busy" }));
      for (const reader of busy) await reader.hasMessages(1);
      const patient = ["wait=0", "wait=1, respond-async"].map((prefer) =>
        stream("run", {}, { headers: { prefer } }),
      );
      await until("both wait for a replica", () => service().apps.get("app")?.pool.slots.waiting === 2);
      clock.advance(1_000);
      letGo(service(), "app", "busy");
      for (const reader of patient) {
        await reader.ended();
        expect([reader.head?.status, reader.data]).toEqual([200, ["one", "two"]]);
        expect(reader.header("preference-applied")).toBeNull();
      }
      for (const reader of [...busy, ...patient]) reader.leave();
    },
  );

  test("to a caller of HTTP/1.0 comes without chunks, up to the end of the connection", async () => {
    const reader = await stream("run", {}, { httpVersion: "1.0" }).ended();
    expect(reader.isClosed).toBe(true);
    expect([reader.header("transfer-encoding"), reader.data]).toEqual([null, ["one", "two"]]);
  });

  test("leaves its connection fit for the next call", async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const { token } = service().service.owner;
    const call = (functionName: string) =>
      new Promise<{ text: string; isReused: boolean }>((resolve, reject) => {
        const headers = { authorization: `Bearer ${token}` };
        const sent = request(service().url("app", functionName), { method: "POST", agent, headers });
        sent.on("error", reject).on("response", (response) => {
          let text = "";
          response.on("data", (data) => (text += String(data)));
          response.on("end", () => resolve({ text, isReused: sent.reusedSocket }));
        });
        sent.end();
      });
    expect(await call("run")).toEqual({ text: "data: one\n\ndata: two\n\n", isReused: false });
    expect(await call("run")).toEqual({ text: "data: one\n\ndata: two\n\n", isReused: true });
    const listed = await call("listed");
    expect([JSON.parse(listed.text).result, listed.isReused]).toEqual([["x", "y"], true]);
    agent.destroy();
  });
});
