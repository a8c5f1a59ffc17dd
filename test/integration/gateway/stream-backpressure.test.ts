import { Condition } from "../../../src/kit/concurrency.ts";
import { existsSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { WAIT_FOR, letGo } from "../../support/run-apps.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openStream, type StreamReader } from "../../support/stream-reader.ts";
import { tcpEnd } from "../../support/tcp-table.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

/** Counts what it yields in a file, and notes its end in another. */
const COUNTING = `
import base64
import os

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

const DEF = `${COUNTING}${WAIT_FOR}
def eager(name, size, count=20_000):
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
        return int(file.read())

def large(size):
    return text(size)

def held(gate):
    wait_for(gate)
    return "let go"
`;

const ASYNC = `${COUNTING}
async def eager(name, size, count=20_000):
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
        return int(file.read())
`;

const MIB = 1024 * 1024;
const SIZE = 8 * 1024;
/** Half of it is longer than any test takes. */
const STALL_MS = 600_000;

const scaling = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 4\nresponse_grace_period = 43200\n";
const limits = `[limits]\nstream_stall_timeout = ${STALL_MS / 1000}\nmax_chunk = '64MiB'\n`;
const clock = new SkippingClock();
const service = sharedService(
  { app: { main: DEF, toml: scaling + limits }, looped: { main: ASYNC, toml: scaling + limits } },
  WITHOUT_WALLS,
  { clock },
);

const eager = (app: string, body: object, headers: Record<string, string> = {}): StreamReader =>
  openStream(service(), app, { size: SIZE, ...body }, { functionName: "eager", headers });

const apiPort = (): number => Number(new URL(service().service.apiUrl).port);

/** What of an answer lies in the kernel, on its way to a socket of the test. */
function kernelBytes(port = 0): number {
  const [sending, reading] = [tcpEnd(apiPort(), port), tcpEnd(port, apiPort())];
  return (sending?.unsentBytes ?? 0) + (reading?.unreadBytes ?? 0);
}

/** Code that is told to stop is given 5 s of the clock that tests move: they wait until it has stopped. */
async function stopped(app: string, { runId }: StreamReader): Promise<void> {
  const replicas = [...(service().apps.get(app)?.pool.replicas ?? [])];
  const calls = () => replicas.flatMap((replica) => [...replica.calls.values()]);
  await until("the slot is free", () => calls().every((call) => call.runId !== runId));
}

describe("an eager generator and a reader who pauses", () => {
  for (const [title, app] of [
    ["def", "app"],
    ["async def", "looped"],
  ] as const) {
    verifies(
      "stream.backpressure",
      `the generator waits, hardly anything lies between the two, and both go on when the reader does (${title})`,
      async () => {
        const howFar = async (): Promise<number> =>
          (await service().call(app, { name: "count" }, { functionName: "how_far" })).json.result;
        const reader = eager(app, { name: "count" });
        const { socket, messages } = reader;
        await reader.hasMessages(100);
        socket.pause();
        let stoppedAt = 0;
        await until("the generator stands still while another goes on", async () => {
          stoppedAt = await howFar();
          await eager(app, { name: "other", count: 500 }).ended();
          return (await howFar()) === stoppedAt;
        });
        // Whatever replica and service hold of it: far less than the kernel does.
        const unreadBytes = (stoppedAt - messages.length) * SIZE;
        expect(unreadBytes).toBeGreaterThan(0);
        expect(unreadBytes - kernelBytes(socket.localPort) - socket.readableLength).toBeLessThan(MIB);

        socket.resume();
        await reader.hasMessages(stoppedAt + 1_000);
        expect(reader.data.every((data) => data.length === SIZE)).toBe(true);
        reader.leave();
        await stopped(app, reader);
      },
    );
  }
});

/** Lets time pass; what that does is done when something else has been answered. */
async function pass(ms: number): Promise<void> {
  clock.skip(ms);
  await fetch(`${service().service.baseUrl}/livez`);
}

/** Waits until the kernel takes nothing more for readers who have stopped, while another reads on. */
async function allFull(readers: readonly StreamReader[]): Promise<void> {
  const taken = (): number => readers.reduce((sum, { socket }) => sum + kernelBytes(socket.localPort), 0);
  await until("the kernel takes no more", async () => {
    const before = taken();
    await eager("app", { name: "other", count: 10 }).ended();
    return taken() === before;
  });
}

const isOpen = ({ socket }: StreamReader): boolean => tcpEnd(apiPort(), socket.localPort ?? 0) !== null;

describe("a reader who stalls", () => {
  verifies(
    "stream.stall",
    "is dropped after stream_stall_timeout, and the generator closed: def and async def, plain and gzip",
    async () => {
      const stalled = ["app", "looped"].flatMap((app) =>
        ["identity", "gzip"].map((encoding) => {
          // More than the kernel takes, at one go.
          const reader = eager(app, { name: encoding, size: 8 * MIB }, { "accept-encoding": encoding });
          const bundleDir = service().bundleDir(app);
          return { app, reader, isOver: () => existsSync(path.join(bundleDir, `${encoding}.closed`)) };
        }),
      );
      for (const { reader } of stalled) {
        await reader.hasHead();
        reader.socket.pause();
      }
      await allFull(stalled.map(({ reader }) => reader));
      await pass(STALL_MS / 2);
      expect(stalled.map(({ reader }) => isOpen(reader))).toEqual([true, true, true, true]);
      for (let left = stalled; left.length > 0;) {
        // Maybe again: when it was last looked at, the kernel may still have taken some.
        await pass(STALL_MS);
        const dropped = left.filter(({ reader }) => !isOpen(reader));
        for (const { app, reader, isOver } of dropped) {
          await until("its finally has run", isOver);
          await stopped(app, reader);
        }
        left = left.filter((each) => !dropped.includes(each));
      }
      await service().service.settle();
      for (const { app, reader } of stalled) {
        const appNumber = service().apps.get(app)?.app.number ?? 0;
        const run = await service().service.store.runs.find({ appNumber, id: reader.runId });
        expect(run).toMatchObject({ state: "cancelled", statusCode: null });
        reader.socket.resume();
        await reader.ended();
        expect([reader.isClosed, reader.isWhole]).toEqual([true, false]);
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
    await allFull([reader]);
    await pass(STALL_MS / 2);
    expect(isOpen(reader)).toBe(true);
    await until("the service has closed the connection", async () => {
      await pass(STALL_MS);
      return !isOpen(reader);
    });
    reader.socket.resume();
    await reader.ended();
    expect(reader.isWhole).toBe(false);
  });

  verifies("stream.stall", "is not dropped for being slow, as long as some bytes are taken", async () => {
    const size = 24 * MIB;
    const { socket } = await open(requestText("eager", { name: "slow", size, count: 3 }));
    let bytes = 0;
    let tail = "";
    const news = new Condition();
    socket.on("data", (data: Buffer) => {
      bytes += data.length;
      tail = (tail + data.subarray(-64).toString("latin1")).slice(-64);
      socket.pause();
      news.notify();
    });
    socket.on("close", () => news.notify());
    const readUntil = async (isEnough: () => boolean): Promise<void> => {
      const look = (): boolean => {
        const isOver = socket.destroyed || isEnough();
        if (!isOver) socket.resume();
        return isOver;
      };
      await until("it has read as much", look, news);
    };
    // For longer than the timeout. Each time the reader takes more than lies between the two: some left the service.
    for (let step = 0; step < 4; step++) {
      const enough = bytes + kernelBytes(socket.localPort) + MIB;
      await readUntil(() => bytes > enough);
      await pass(STALL_MS / 2);
      expect([step, socket.destroyed]).toEqual([step, false]);
    }
    await readUntil(() => tail.endsWith("\n\n\r\n0\r\n\r\n"));
    expect(bytes).toBeGreaterThan(3 * size);
    socket.destroy();
  });

  test("is no measure for the next call on the same connection, which may take longer", async () => {
    const first = requestText("eager", { name: "next", size: 10, count: 3 });
    const { socket } = await open(first + requestText("held", { gate: "held" }));
    let text = "";
    socket.on("data", (data) => (text += String(data)));
    await until("the stream is whole", () => text.endsWith("0\r\n\r\n"));
    for (let step = 0; step < 4; step++) await pass(STALL_MS / 2);
    letGo(service(), "app", "held");
    await until("the second is answered", () => socket.destroyed || text.includes("let go"));
    expect(text).toMatch(/0\r\n\r\nHTTP\/1\.1 200 OK[^]*"result":"let go"/);
    socket.destroy();
  });
});

/** A connection to the service with requests that a test has written itself. */
async function open(requests: string): Promise<RawConnection> {
  const connection = await RawConnection.open(service().service.apiUrl);
  connection.socket.removeAllListeners("data");
  connection.send(requests);
  return connection;
}

function requestText(functionName: string, fields: object): string {
  const body = JSON.stringify(fields);
  const { token } = service().service.owner;
  const headers = [`Authorization: Bearer ${token}`, "Content-Type: application/json"];
  const line = `POST ${new URL(service().url("app", functionName)).pathname} HTTP/1.1`;
  return rawRequest(line, ["Host: x", ...headers, `Content-Length: ${body.length}`], body);
}
