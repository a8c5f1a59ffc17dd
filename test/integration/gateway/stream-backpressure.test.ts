import { existsSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import type { Socket } from "node:net";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { memoryBytes } from "../../support/process-tree.ts";
import { serveApps } from "../../support/serve-apps.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { StreamReader, openStream } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";

/** Counts what it yields in a file, and notes its end in another. */
const COUNTING = `
import base64
import os
import time

def text(size):
    """What gzip cannot make much smaller."""
    return base64.b64encode(os.urandom(size))[:size].decode()

class Counter:
    def __init__(self, name):
        self.name = name
        self.count = 0
        self.file = os.open(name, os.O_CREAT | os.O_RDWR)
    def up(self):
        self.count += 1
        os.pwrite(self.file, b"%012d" % self.count, 0)
    def close(self):
        open(self.name + ".closed", "w").close()
`;

const DEF = `${COUNTING}
def eager(name, size, count=10 ** 9):
    counter = Counter(name)
    chunk = text(size)
    try:
        for _ in range(count):
            counter.up()
            yield chunk
    finally:
        counter.close()

def how_far(name):
    with open(name) as file:
        return [int(file.read()), os.getpid()]

def large(size):
    return text(size)

def wait(seconds):
    time.sleep(seconds)
    return "waited"
`;

const ASYNC = `${COUNTING}
async def eager(name, size, count=10 ** 9):
    counter = Counter(name)
    chunk = text(size)
    try:
        for _ in range(count):
            counter.up()
            yield chunk
    finally:
        counter.close()

async def how_far(name):
    with open(name) as file:
        return [int(file.read()), os.getpid()]
`;

const MIB = 1024 * 1024;
const SIZE = 8 * 1024;

/** A number that has stood still for half a second. */
async function steady(what: string, read: () => Promise<number>): Promise<number> {
  let value = await read();
  let since = performance.now();
  await until(`${what} stands still`, async () => {
    const next = await read();
    if (next !== value) since = performance.now();
    value = next;
    return performance.now() - since > 500;
  });
  return value;
}

describe("an eager generator and a reader who pauses", () => {
  for (const [title, main] of [
    ["def", DEF],
    ["async def", ASYNC],
  ] as const) {
    verifies(
      "stream.backpressure",
      `the generator waits, service and replica hardly grow, and both go on when the reader does (${title})`,
      async () => {
        const toml = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 4\n";
        const served = await serveApps({ app: { main, toml } });
        const url = `${served.url}/app/eager`;
        const open = (name: string, more: object) =>
          new StreamReader({ url, token: served.token, body: JSON.stringify({ name, size: SIZE, ...more }) });
        const ask = async (): Promise<[number, number]> =>
          (await served.call("app", "how_far", { name: "count" })).json.result;
        const howFar = async () => (await ask())[0];

        await open("warm-up", { count: 4_000 }).ended();
        const reader = open("count", {});
        await reader.hasMessages(100);
        const pids = [served.command.pid, (await ask())[1]];
        reader.socket.pause();
        const before = pids.map(memoryBytes);
        const stoppedAt = await steady("the generator", howFar);
        const growth = pids.map((pid, place) => memoryBytes(pid) - (before[place] ?? 0));
        // What the kernel holds for a connection is some megabytes; the rest is the service's.
        expect((stoppedAt - reader.data.length) * SIZE).toBeLessThan(32 * MIB);
        for (const bytes of growth) expect(bytes).toBeLessThan(8 * MIB);

        reader.socket.resume();
        await until("the generator has gone on", async () => (await howFar()) > stoppedAt + 2_000);
        expect(reader.data.every((data) => data.length === SIZE)).toBe(true);
        reader.leave();
      },
    );
  }
});

/** Whether the kernel has an open connection between two ports of this machine, seen from the first. */
function hasConnection(from: number, to: number): boolean {
  const hex = (port: number): string => port.toString(16).toUpperCase().padStart(4, "0");
  const row = new RegExp(`^ *\\d+: \\w+:${hex(from)} \\w+:${hex(to)} 01 `, "m");
  return row.test(readFileSync("/proc/net/tcp", "utf8"));
}

const limits = "[limits]\nstream_stall_timeout = 1\nmax_chunk = '64MiB'\n";
const service = sharedService({
  app: { main: DEF, toml: `[scaling]\nmax_replicas = 2\n${limits}` },
  looped: { main: ASYNC, toml: `[scaling]\nmax_replicas = 2\n${limits}` },
});

const bundle = (app: string): string => service().apps.get(app)?.version.bundleDir ?? "";

describe("a reader who stalls", () => {
  verifies(
    "stream.stall",
    "is dropped after stream_stall_timeout, and the generator closed: def and async def, plain and gzip",
    async () => {
      const stalled = ["app", "looped"].flatMap((app) =>
        ["identity", "gzip"].map((encoding) => {
          const headers = { "accept-encoding": encoding };
          const body = { name: encoding, size: SIZE };
          const reader = openStream(service(), app, body, { functionName: "eager", headers });
          return { app, reader, closed: path.join(bundle(app), `${encoding}.closed`) };
        }),
      );
      for (const { reader } of stalled) {
        await reader.hasMessages(10);
        reader.socket.pause();
      }
      const pausedAt = performance.now();
      for (const { app, reader, closed } of stalled) {
        await until("its finally has run", () => existsSync(closed));
        expect(performance.now() - pausedAt).toBeGreaterThan(900);
        await service().service.settle();
        const appNumber = service().apps.get(app)?.app.number ?? 0;
        const run = await service().service.store.runs.find({ appNumber, id: reader.runId });
        expect(run).toMatchObject({ state: "cancelled", statusCode: null });
        reader.socket.resume();
        await until("the connection is closed", () => reader.isClosed);
        expect(reader.isWhole).toBe(false);
      }
    },
  );

  verifies("stream.stall", "is dropped too when the run is over and only its last bytes wait", async () => {
    const options = { functionName: "large", headers: { accept: "text/event-stream" } };
    const reader = openStream(service(), "app", { size: 24 * MIB }, options);
    reader.socket.pause();
    await until("the run is over", async () => {
      await service().service.settle();
      const appNumber = service().apps.get("app")?.app.number ?? 0;
      const [newest] = await service().service.store.runs.list({ appNumber, limit: 1 });
      return newest?.functionName === "large";
    });
    const pausedAt = performance.now();
    const { port } = new URL(service().service.apiUrl);
    const isOpen = () => hasConnection(Number(port), reader.socket.localPort ?? 0);
    expect(isOpen()).toBe(true);
    await until("the service has closed the connection", () => !isOpen());
    expect(performance.now() - pausedAt).toBeGreaterThan(900);
    reader.socket.resume();
    await reader.ended();
    expect(reader.isWhole).toBe(false);
  });

  verifies("stream.stall", "is not dropped for being slow, as long as some bytes are taken", async () => {
    const size = 24 * MIB;
    const socket = open();
    let bytes = 0;
    let tail = "";
    let isClosed = false;
    socket.on("data", (data: Buffer) => {
      bytes += data.length;
      tail = (tail + data.subarray(-64).toString("latin1")).slice(-64);
      socket.pause();
      setTimeout(() => socket.resume(), 8);
    });
    socket.on("close", () => (isClosed = true));
    const startedAt = performance.now();
    socket.write(requestText("eager", { name: "slow", size, count: 1 }));
    await until("all of it is read", () => isClosed || tail.endsWith("\n\n\r\n0\r\n\r\n"));
    expect(performance.now() - startedAt).toBeGreaterThan(2_000);
    expect(bytes).toBeGreaterThan(size);
    socket.destroy();
  });

  test("is no measure for the next call on the same connection, which may take longer", async () => {
    const socket = open();
    let text = "";
    socket.on("data", (data) => (text += String(data)));
    socket.on("close", () => (text += "closed"));
    socket.write(requestText("eager", { name: "next", size: 10, count: 3 }));
    socket.write(requestText("wait", { seconds: 2.5 }));
    await until("both are answered", () => /waited|closed/.test(text));
    expect(text).toMatch(/0\r\n\r\nHTTP\/1\.1 200 OK[^]*"result":"waited"/);
    socket.destroy();
  });
});

/** A connection to the service whose requests a test writes itself. */
function open(): Socket {
  const { hostname, port } = new URL(service().service.apiUrl);
  return connect({ host: hostname, port: Number(port) }).on("error", () => {});
}

function requestText(functionName: string, fields: object): string {
  const { pathname } = new URL(service().url("app", functionName));
  const body = JSON.stringify(fields);
  const { token } = service().service.owner;
  return (
    `POST ${pathname} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n` +
    `Authorization: Bearer ${token}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  );
}
