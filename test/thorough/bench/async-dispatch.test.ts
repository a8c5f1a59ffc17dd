import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { type DispatchResult, measureDispatch } from "../../../bench/async-dispatch.ts";

async function dispatchOn(answer: RequestListener, runs: number): Promise<DispatchResult> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/run?async=true`;
  try {
    return await measureDispatch({ url, headers: {}, pid: process.pid, stop: () => Promise.resolve() }, runs);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

function seconds(): number {
  return Number(process.hrtime.bigint()) / 1e9;
}

test("a delay runs from the request, and from the 202, to what the function returned", async () => {
  const lateBy = [0.2, 0.3, 0.1];
  let run = 0;
  let acceptedAt = 0;
  const result = await dispatchOn((req, res) => {
    if (req.method === "POST") {
      res.writeHead(202, { location: `http://${req.headers.host}/runs/${run}` }).end("{}");
      acceptedAt = seconds();
      return;
    }
    expect(req.url).toBe(`/runs/${run}/result`);
    res.end(JSON.stringify({ result: acceptedAt + lateBy[run++]! }));
  }, 3);
  expect(result.runs).toBe(3);
  // The request comes before the moment it was counted from here, the 202 is read after it.
  expect(result.sinceRequest.p50Us).toBeGreaterThanOrEqual(200_000);
  expect(result.sinceRequest.p99Us).toBeGreaterThanOrEqual(300_000);
  expect(result.sinceAccepted.p50Us).toBeLessThanOrEqual(200_000);
  expect(result.sinceAccepted.p99Us).toBeLessThanOrEqual(300_000);
});

test("a run that has no result in time counts as begun then", async () => {
  const result = await dispatchOn((req, res) => {
    const location = `http://${req.headers.host}/runs/1`;
    res.writeHead(202, { location }).end("{}");
  }, 1);
  expect(result.sinceRequest.p50Us).toBeGreaterThan(0);
  expect(result.sinceAccepted.p50Us).toBeGreaterThan(0);
});

test("a run that is not accepted, or has no result, ends the measurement", async () => {
  await expect(dispatchOn((_req, res) => void res.writeHead(503).end("full"), 1)).rejects.toThrow(
    "status 503",
  );
  const failing: RequestListener = (req, res) => {
    if (req.method === "POST") res.writeHead(202, { location: `http://${req.headers.host}/runs/1` }).end();
    else res.writeHead(500).end("app_error");
  };
  await expect(dispatchOn(failing, 1)).rejects.toThrow("status 500 of a result");
});
