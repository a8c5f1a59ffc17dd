import { Agent, request } from "node:http";
import { describe, expect, test } from "vitest";
import { testService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openStream } from "../../support/stream-reader.ts";
import type { StreamOptions } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import time

def run(values=("one", "two")):
    for value in values:
        yield value

def wait_first(seconds, rest=0):
    time.sleep(seconds)
    yield "first"
    time.sleep(rest)

def empty():
    return
    yield

def raises(seconds=0):
    time.sleep(seconds)
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
`;

const service = sharedService({ app: { main: MAIN }, looped: { main: ASYNC } });
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
        const reader = stream("wait_first", { seconds: 0, rest: 0.1 }, { headers });
        const { status, fields } = await reader.hasHead();
        expect(status).toBe(200);
        expect(Object.fromEntries(fields.map(([name, value]) => [name.toLowerCase(), value]))).toEqual({
          ...COMMON,
          ...more,
        });
        expect(fields).toHaveLength(Object.keys({ ...COMMON, ...more }).length);
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

  verifies("stream.first-headers", "leaves with the first chunk, not before", async () => {
    const reader = stream("wait_first", { seconds: 0.4, rest: 2 });
    await reader.hasMessages(1);
    const waitedMs = (reader.head?.at ?? 0) - reader.sentAt;
    expect(waitedMs).toBeGreaterThan(390);
    expect(waitedMs).toBeLessThan(950);
    reader.leave();
  });

  verifies("stream.first-headers", "leaves after 1 s when nothing was yielded until then", async () => {
    const headers = { "accept-encoding": "gzip" };
    const readers = [stream("wait_first", { seconds: 2 }), stream("wait_first", { seconds: 2 }, { headers })];
    for (const reader of readers) {
      const { at, status } = await reader.hasHead();
      expect([status, reader.messages]).toEqual([200, []]);
      expect(at - reader.sentAt).toBeGreaterThan(950);
      expect(at - reader.sentAt).toBeLessThan(1_900);
    }
    for (const reader of readers) {
      expect((await reader.ended()).data).toEqual(["first"]);
      expect(reader.isWhole).toBe(true);
      reader.leave();
    }
  });

  verifies("stream.early-exception", "is an ordinary status when an exception comes before it", async () => {
    for (const [functionName, body, status, code] of [
      ["raises", {}, 500, "app_error"],
      ["raises", { seconds: 0.3 }, 500, "app_error"],
      ["unsendable", {}, 500, "result_not_json"],
      ["run", { other: 1 }, 422, "invalid_arguments"],
    ] as const) {
      const reader = stream(functionName, body, { headers: { "accept-encoding": "gzip" } });
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

  test("lets a page of another origin read, and keeps Vary whole where origins are narrowed", async () => {
    const headers = { origin: "https://one.example" };
    const reader = await stream("run", {}, { headers }).ended();
    expect(reader.header("access-control-allow-origin")).toBe("*");
    expect(reader.header("access-control-expose-headers")).toContain("X-Request-Id");
    reader.leave();
    const narrow = await testService({ app: { main: MAIN } }, { corsOrigins: "https://one.example" });
    const known = await openStream(narrow, "app", {}, { headers }).ended();
    expect(known.header("access-control-allow-origin")).toBe("https://one.example");
    expect(known.header("vary")).toBe("Accept-Encoding, Origin");
    const other = await openStream(narrow, "app", {}, { headers: { origin: "https://two.example" } }).ended();
    expect([other.header("access-control-allow-origin"), other.header("vary")]).toEqual([
      null,
      "Accept-Encoding, Origin",
    ]);
    for (const open of [known, other]) open.leave();
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
      for (const [name, value] of [
        ["accept", "application/json"],
        ["accept", "text/event-stream;q=0"],
        ["accept", "text/event-stream"],
        ["prefer", "wait=0"],
        ["prefer", "wait=1, respond-async"],
      ] as const) {
        const reader = await stream("run", {}, { headers: { [name]: value } }).ended();
        expect([value, reader.head?.status, reader.data]).toEqual([value, 200, ["one", "two"]]);
        expect(reader.header("preference-applied")).toBeNull();
        reader.leave();
      }
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
