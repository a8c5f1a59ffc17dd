import { expect } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const site = sharedService({
  web: serverApp({ toml: "[scaling]\nmax_replicas = 1\nreplica_concurrency = 8\n" }),
  open: serverApp({ toml: '[deployment]\nrecord_payloads = "none"\n' }),
});

const auth = (): string => `Bearer ${site().service.owner.token}`;

verifies("servers.records", "a request is a run, with its bodies", async () => {
  const answer = await site().call("web", { a: 1 }, { functionName: "some/path", suffix: "?status=418" });
  expect(answer.status).toBe(418);
  const runId = answer.headers.get("x-request-id") ?? "";
  const record = await site().ofRun("web", runId);
  expect(record.json).toMatchObject({
    functionName: "/some/path",
    method: "POST",
    status: "failure",
    statusCode: 418,
    async: false,
    websocket: false,
    error: null,
    result: { method: "POST" },
    requestBytes: 7,
    responseBytes: Buffer.byteLength(answer.text),
  });
  expect(record.json.runtimeMs).toBeGreaterThan(0);
  const input = await site().ofRun("web", runId, "input");
  expect(input.text).toBe('{"a":1}');
  expect(input.headers.get("content-type")).toBe("application/json");
  const result = await site().ofRun("web", runId, "result");
  expect(result).toMatchObject({ status: 418, text: answer.text });
  const stream = await site().call("web", "", { functionName: "stream", method: "GET" });
  const kept = await site().ofRun("web", stream.headers.get("x-request-id") ?? "", "result");
  expect(kept.text).toBe("data: 0\n\ndata: 1\n\ndata: 2\n\n");
  expect(kept.headers.get("content-type")).toMatch(/^text\/event-stream/);
  expect((await site().ofRun("web", stream.headers.get("x-request-id") ?? "")).json).toMatchObject({
    method: "GET",
    requestBytes: 0,
    responseBytes: kept.text.length,
  });
  const bare = await site().call("open", {}, { functionName: "echo" });
  const nothing = await site().ofRun("open", bare.headers.get("x-request-id") ?? "", "result");
  expect(nothing.json.code).toBe("payload_not_kept");
});

verifies("servers.records", "bytes are counted of a body that passes piece by piece, too", async () => {
  const body = "x".repeat(300_000);
  const answer = await site().call("web", body, { functionName: "hash", method: "PUT" });
  const record = await site().ofRun("web", answer.headers.get("x-request-id") ?? "");
  expect(record.json).toMatchObject({ method: "PUT", requestBytes: 300_000, responseBytes: 64 });
});

verifies("servers.cancel", "cancelling, or leaving, closes the connection to the app", async () => {
  const gone = (): number => site().logs.filter(({ text }) => text === "the caller has gone").length;
  const first = gone();
  const response = await fetch(site().url("web", "forever"), { headers: { authorization: auth() } });
  const runId = response.headers.get("x-request-id") ?? "";
  const cancelled = await site().ofRun("web", runId, "cancel", { method: "POST" });
  expect(cancelled.status).toBe(202);
  await expect(response.text()).rejects.toThrow(/terminated/);
  await until("the app has noticed", () => gone() > first);
  await until(
    "the run is recorded",
    async () => (await site().ofRun("web", runId)).json.status === "cancelled",
  );

  const second = gone();
  const leaving = new AbortController();
  const left = await fetch(site().url("web", "forever"), {
    headers: { authorization: auth() },
    signal: leaving.signal,
  });
  leaving.abort();
  await until("the app has noticed again", () => gone() > second);
  const record = await site().ofRun("web", left.headers.get("x-request-id") ?? "");
  expect(record.json.status).toBe("cancelled");
  await until("every slot is free", () =>
    [...(site().apps.get("web")?.pool.replicas ?? [])].every(({ calls }) => calls.size === 0),
  );
});
