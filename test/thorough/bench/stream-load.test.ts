import { once } from "node:events";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { gzipSync } from "node:zlib";
import { buildRequest } from "../../../bench/load-job.ts";
import { stopAll } from "../../../bench/processes.ts";
import { startStreamClient, type StreamPressure, type StreamRound } from "../../../bench/stream-client.ts";
import type { StreamJob } from "../../../bench/stream-job.ts";
import { StreamReading } from "../../../bench/stream-reading.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";

afterAll(stopAll);

const ONCE: StreamPressure = { streams: 4, window: null, endWithinMs: 60_000, body: "{}", isGzip: false };

async function readFrom(answer: RequestListener, pressure: StreamPressure): Promise<StreamRound> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/run`;
  const target = { url, headers: {}, pid: process.pid, stop: () => Promise.resolve() };
  const round = await startStreamClient().read(target, pressure);
  server.closeAllConnections();
  server.close();
  return round;
}

function send(response: ServerResponse, messages: readonly string[]): void {
  for (const message of messages) response.write(`data: ${message}\n\n`);
}

test("every message of every stream is counted once", async () => {
  const round = await readFrom((_, response) => {
    send(response, ["1", "2", "3"]);
    response.end();
  }, ONCE);
  expect(round).toMatchObject({ messages: 12, messagesEver: 12, statuses: { 200: 4 }, errors: {} });
  expect(round.messagesPerSecond).toBeGreaterThan(0);
});

test("a stream that breaks off, an answer that is none and a refusal are all told", async () => {
  let served = 0;
  const round = await readFrom((_, response) => {
    served += 1;
    if (served === 1) response.writeHead(200).write("data: 1\n\n", () => response.destroy());
    else if (served === 2) response.writeHead(200, { "content-length": 2 }).end("{}");
    else if (served === 3) response.writeHead(503, { "content-length": 2 }).end("{}");
    else response.end("data: 1\n\n");
  }, ONCE);
  expect(round.statuses[503]).toBe(1);
  expect(round.errors["an answer that is not in chunks"]).toBeGreaterThanOrEqual(2);
  expect(round.errors["connection closed before the stream's end"]).toBe(1);
});

/** Streams that are read in this process, by a clock that a test moves; the test answers them when it likes. */
async function reading(change: Partial<StreamJob>) {
  const responses: ServerResponse[] = [];
  const server = createServer((_, response) => responses.push(response)).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const url = new URL(`http://127.0.0.1:${port}/run`);
  const job: StreamJob = {
    host: url.hostname,
    port,
    request: buildRequest(url, {}, "{}"),
    streams: 4,
    window: WINDOW,
    endWithinMs: MINUTE_MS,
    decodeEvery: 1,
    watch: [process.pid],
    ...change,
  };
  const clock = new SkippingClock();
  const streams = new StreamReading(job, clock);
  const result = streams.run();
  await until("all have asked", () => responses.length === job.streams);
  return { clock, streams, responses, result };
}

// So long that none of it passes but by the test's doing.
const MINUTE_MS = 60_000;
const WINDOW = { fromMs: 5 * MINUTE_MS, toMs: 10 * MINUTE_MS };

test("a delay is from the time in the message to its arrival, inside the window alone", async () => {
  const { clock, streams, responses, result } = await reading({});
  const LATE_MS = 10_000;
  const sendAll = async (message: string, count: number): Promise<void> => {
    for (const response of responses) send(response, [message]);
    await until(`${count} messages are read`, () => streams.messageCount === count);
  };
  await sendAll("1", 4);
  clock.skip(WINDOW.fromMs);
  await sendAll(`${Date.now() - LATE_MS}000000`, 8);
  clock.skip(WINDOW.toMs - WINDOW.fromMs);
  await sendAll("1", 12);
  for (const response of responses) response.end();
  const { messages, messagesEver, p50Us, errors } = await result;
  expect({ messages, messagesEver, errors }).toEqual({ messages: 4, messagesEver: 12, errors: {} });
  // And what it took to arrive; a histogram knows two digits.
  expect(p50Us).toBeGreaterThan(0.95 * LATE_MS * 1000);
});

test("streams that are missing at either end of the window make it unsound", async () => {
  const { clock, streams, responses, result } = await reading({});
  for (const response of responses.slice(1)) send(response, ["1"]);
  await until("all but one are open", () => streams.messageCount === 3);
  clock.skip(WINDOW.fromMs);
  responses.at(-1)?.end();
  await until("another has ended", () => streams.endedCount === 1);
  clock.skip(WINDOW.toMs - WINDOW.fromMs);
  clock.skip(MINUTE_MS);
  expect((await result).errors).toEqual({
    "stream not open when the window began": 1,
    "stream ended before the window did": 1,
    "stream without an end": 3,
  });
});

test("of gzip streams one in ten is decoded and stands for the others", async () => {
  const body = gzipSync("data: 1\n\ndata: 2\n\n");
  const { streams, responses, result } = await reading({ streams: 20, decodeEvery: 10, window: null });
  for (const response of responses) {
    response.writeHead(200, { "content-encoding": "gzip" });
    response.write(body);
  }
  await until("two are decoded", () => streams.messageCount === 4);
  for (const response of responses) response.end();
  expect(await result).toMatchObject({ messages: 40, messagesEver: 4, errors: {} });
});
