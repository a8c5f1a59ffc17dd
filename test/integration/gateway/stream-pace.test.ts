import { spawn } from "node:child_process";
import { once } from "node:events";
import { beforeAll, expect } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { now, openStream } from "../../support/stream-reader.ts";
import type { StreamReader } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import time

def run(upper_range: int):
    """The seed's own example."""
    for number in range(upper_range):
        yield "Number %d " % number
        time.sleep(1)

def clock(count, seconds):
    for _ in range(count):
        yield time.time()
        time.sleep(seconds)

def busy(count, seconds):
    """Yields, then computes: the interpreter is never idle."""
    for _ in range(count):
        yield time.time()
        until = time.time() + seconds
        while time.time() < until:
            pass

def idle(seconds):
    yield "before"
    time.sleep(seconds)
    yield "after"
`;

const ASYNC = `
import asyncio
import time

async def clock(count, seconds):
    for _ in range(count):
        yield time.time()
        await asyncio.sleep(seconds)
`;

const GZIP = { "accept-encoding": "gzip" };
const service = sharedService({
  app: { main: MAIN, toml: "[scaling]\nmax_replicas = 6\n" },
  threads: { main: MAIN, toml: "[scaling]\nmax_replicas = 1\nreplica_concurrency = 4\n" },
  looped: { main: ASYNC, toml: "[scaling]\nmax_replicas = 1\nreplica_concurrency = 4\n" },
});

// Fifteen seconds of silence pass while the other tests run.
let silent: StreamReader[] = [];
beforeAll(() => {
  silent = [{}, GZIP].map((headers) =>
    openStream(service(), "app", { seconds: 15.7 }, { functionName: "idle", headers }),
  );
});

/** How long each message, which tells when it was yielded, was on its way. */
function delaysMs({ messages }: StreamReader): number[] {
  return messages.map(({ data, at }) => at - Number(data) * 1000).toSorted((a, b) => a - b);
}

for (const [title, app, functionName] of [
  ["a generator", "app", "clock"],
  ["a generator that computes between its yields", "app", "busy"],
  ["a generator in a thread", "threads", "clock"],
  ["an async generator", "looped", "clock"],
] as const) {
  verifies(
    ["stream.progressive", "stream.gzip"],
    `a message of ${title} arrives within 50 ms of its yield, plain and gzip`,
    async () => {
      for (const headers of [{}, GZIP]) {
        const body = { count: 20, seconds: 0.02 };
        const reader = await openStream(service(), app, body, { functionName, headers }).ended();
        expect(reader.messages).toHaveLength(20);
        const delays = delaysMs(reader);
        // The median: one of them may meet a moment in which the machine is busy.
        expect(delays[10]).toBeLessThan(50);
        expect(delays[0]).toBeGreaterThan(-5);
        reader.leave();
      }
    },
  );
}

verifies(
  ["stream.example", "stream.progressive"],
  "one text per second for upper_range iterations is that many messages, one per second",
  async () => {
    const curl = readWithCurl(service().url("app"), '{"upper_range": 3}');
    const readers = [{}, GZIP].map((headers) =>
      openStream(service(), "app", { upper_range: 3 }, { headers }),
    );
    const wanted = ["Number 0 ", "Number 1 ", "Number 2 "];
    for (const reader of readers) {
      await reader.ended();
      expect(reader.data).toEqual(wanted);
      expectOnePerSecond(reader.messages.map(({ at }) => at));
      reader.leave();
    }
    const { text, arrivals } = await curl;
    expect(text).toBe(wanted.map((data) => `data: ${data}\n\n`).join(""));
    expectOnePerSecond(arrivals);
  },
);

function expectOnePerSecond(times: readonly number[]): void {
  expect(times).toHaveLength(3);
  for (const [place, at] of times.slice(1).entries()) {
    const gapMs = at - (times[place] ?? 0);
    expect(gapMs).toBeGreaterThan(800);
    expect(gapMs).toBeLessThan(1_400);
  }
}

/** What `curl -N` prints, and when each piece of it came. */
async function readWithCurl(url: string, body: string): Promise<{ text: string; arrivals: number[] }> {
  const token = `Authorization: Bearer ${service().service.owner.token}`;
  const type = "Content-Type: application/json";
  const curl = spawn("curl", ["-sS", "-N", "-X", "POST", url, "-H", token, "-H", type, "-d", body]);
  const arrivals: number[] = [];
  let text = "";
  curl.stdout.on("data", (data) => {
    text += String(data);
    arrivals.push(now());
  });
  await once(curl, "close");
  return { text, arrivals };
}

verifies("stream.heartbeat", "a stream idle for more than 15 s gets a comment line", async () => {
  for (const reader of silent) {
    await reader.ended();
    expect(reader.data).toEqual(["before", "after"]);
    expect(reader.comments).toHaveLength(1);
    const [before, after] = reader.messages.map(({ at }) => at);
    const beatMs = (reader.comments[0]?.at ?? 0) - (before ?? 0);
    expect(beatMs).toBeGreaterThan(14_500);
    expect(beatMs).toBeLessThan((after ?? 0) - (before ?? 0));
    expect(reader.text).toMatch(/^data: before\n\n: ?\n\ndata: after\n\n$/);
    reader.leave();
  }
});
