import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, expect, test } from "vitest";
import { startLoadGenerator } from "../../../bench/load-client.ts";
import { type LoadResult, problemOf } from "../../../bench/load-job.ts";
import { stopAll } from "../../../bench/processes.ts";

afterAll(stopAll);

async function loadOn(answer: RequestListener, ...paths: readonly string[]): Promise<LoadResult> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const targets = (paths.length > 0 ? paths : ["/run"]).map((path) => ({
    url: `${origin}${path}`,
    headers: {},
  }));
  const pressure = { connections: 4, leadInMs: 0, measureMs: 200 };
  const result = await startLoadGenerator().measure(targets, pressure);
  server.closeAllConnections();
  server.close();
  return result;
}

test("every call is answered and counted once", async () => {
  let served = 0;
  const result = await loadOn((req, res) => {
    served += 1;
    req.resume();
    res.writeHead(200, { "content-length": 2 });
    res.end("{}");
  });
  expect(result.statuses).toEqual({ 200: served });
  // Each of the four connections may have one answer that came after the window.
  expect(served - result.calls).toBeGreaterThanOrEqual(0);
  expect(served - result.calls).toBeLessThanOrEqual(4);
  expect(result.errors).toEqual({});
});

test("connections share the targets out between them", async () => {
  const served = new Map<string, number>();
  const result = await loadOn(
    (req, res) => {
      served.set(req.url ?? "", (served.get(req.url ?? "") ?? 0) + 1);
      req.resume();
      res.writeHead(200, { "content-length": 2 });
      res.end("{}");
    },
    "/run?priority=high",
    "/run?priority=low",
  );
  expect([...served.keys()].toSorted()).toEqual(["/run?priority=high", "/run?priority=low"]);
  expect(result.statuses).toEqual({ 200: [...served.values()].reduce((sum, count) => sum + count, 0) });
});

test("an answer that is not 200 is counted under its status", async () => {
  let served = 0;
  const result = await loadOn((req, res) => {
    served += 1;
    req.resume();
    res.writeHead(served === 3 ? 503 : 200, { "content-length": 2 });
    res.end("{}");
  });
  expect(result.statuses[503]).toBe(1);
});

test("a latency is no less than what the server took", async () => {
  const tookUs: number[] = [];
  const serve: RequestListener = (req, res) => {
    const from = performance.now();
    req.resume();
    // Not at once, whatever the machine does meanwhile.
    setTimeout(() => {
      tookUs.push((performance.now() - from) * 1000);
      res.writeHead(200, { "content-length": 2 });
      res.end("{}");
    }, 30);
  };
  let result = await loadOn(serve);
  // On a busy machine all answers may come after the window.
  while (result.calls === 0) result = await loadOn(serve);
  // A histogram knows two digits.
  expect(result.p50Us).toBeGreaterThan(0.95 * Math.min(...tookUs));
});

test("a closed connection is an error", async () => {
  const result = await loadOn((req, res) => {
    res.socket?.destroy();
    req.resume();
  });
  expect(Object.keys(result.errors).join()).toMatch(/connection/);
  expect(result.calls).toBe(0);
});

test("a call keeps its query", async () => {
  const urls = new Set<string | undefined>();
  const result = await loadOn((req, res) => {
    urls.add(req.url);
    req.resume();
    res.writeHead(202, { "content-length": 2 });
    res.end("{}");
  }, "/run?async=true");
  expect([...urls]).toEqual(["/run?async=true"]);
  expect(problemOf(result, 202)).toBeNull();
  expect(problemOf(result)).toContain("status 202");
});
