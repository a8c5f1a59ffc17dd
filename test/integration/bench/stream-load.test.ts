import { once } from "node:events";
import { createServer } from "node:http";
import type { RequestListener, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, expect, test } from "vitest";
import { gzipSync } from "node:zlib";
import { stopAll } from "../../../bench/processes.ts";
import { startStreamClient } from "../../../bench/stream-client.ts";
import type { StreamPressure, StreamRound } from "../../../bench/stream-client.ts";

afterAll(stopAll);

const ONCE: StreamPressure = { streams: 4, window: null, endWithinMs: 2_000, body: "{}", isGzip: false };

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

test("a delay is from the time in the message to its arrival, inside the window alone", async () => {
  const LATE_MS = 40;
  const window = { fromMs: 150, toMs: 450 };
  const round = await readFrom(
    (_, response) => {
      send(response, ["1"]);
      const timer = setInterval(() => send(response, [`${Date.now() - LATE_MS}000000`]), 20);
      setTimeout(() => {
        clearInterval(timer);
        response.end();
      }, 700);
    },
    { ...ONCE, window },
  );
  expect(round.errors).toEqual({});
  expect(round.p50Us).toBeGreaterThan(39_900);
  expect(round.p50Us).toBeLessThan(150_000);
  expect(round.messages).toBeLessThan(round.messagesEver);
});

test("streams that are missing at either end of the window make it unsound", async () => {
  let served = 0;
  const round = await readFrom(
    (_, response) => {
      served += 1;
      if (served === 1) return;
      send(response, ["1"]);
      if (served === 2) setTimeout(() => response.end(), 150);
    },
    { ...ONCE, window: { fromMs: 100, toMs: 300 }, endWithinMs: 100 },
  );
  expect(round.errors).toEqual({
    "stream not open when the window began": 1,
    "stream ended before the window did": 1,
    "stream without an end": 3,
  });
});

test("of gzip streams one in ten is decoded and stands for the others", async () => {
  const body = gzipSync("data: 1\n\ndata: 2\n\n");
  const round = await readFrom(
    (_, response) => {
      response.writeHead(200, { "content-encoding": "gzip" });
      response.write(body);
      setTimeout(() => response.end(), 100);
    },
    { ...ONCE, streams: 20, isGzip: true },
  );
  expect(round).toMatchObject({ messages: 40, messagesEver: 4, errors: {} });
});
