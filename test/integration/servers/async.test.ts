import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

const RETRY = '[retry]\non = ["error"]\ninitial_delay = 0\n';
const site = sharedService(
  {
    web: serverApp({ toml: '[scaling]\nmax_replicas = 1\n[limits]\nmax_result = "1MiB"\n' }),
    again: serverApp({ toml: `[scaling]\nmax_replicas = 1\n${RETRY}` }),
  },
  { webhookAllow: "127.0.0.0/8" },
);

/** The record of a run once it has ended. */
async function ended(runId: string, app = "web") {
  await until(
    "it has ended",
    async () => !["queued", "running"].includes((await site().ofRun(app, runId)).json.status),
  );
  return (await site().ofRun(app, runId)).json;
}

verifies("servers.async", "a POST is stored, executed later, kept and forwarded", async () => {
  const target = await WebhookTarget.open();
  const webhook = encodeURIComponent(`${target.url}/hook`);
  const answer = await site().call(
    "web",
    { a: 1 },
    {
      functionName: "v1/jobs",
      suffix: `?x=%20&async=true&webhookEndpoint=${webhook}`,
      headers: { "accept-encoding": "gzip", "x-own": "1" },
    },
  );
  expect(answer.status).toBe(202);
  const { run_id: runId } = answer.json;
  expect(answer.headers.get("location")).toContain(`/web/runs/${runId}`);
  const record = await ended(runId);
  expect(record).toMatchObject({
    functionName: "/v1/jobs",
    method: "POST",
    async: true,
    status: "success",
    statusCode: 200,
    requestBytes: 7,
    result: { method: "POST", path: "/v1/jobs?x=%20", body: '{"a":1}' },
  });
  const headers = new Map(
    record.result.headers.map(([name, value]: [string, string]) => [name.toLowerCase(), value]),
  );
  expect(headers.get("x-own")).toBe("1");
  expect(headers.get("x-request-id")).toBe(runId);
  expect(headers.has("accept-encoding")).toBe(false);
  expect(headers.has("authorization")).toBe(false);
  const result = await site().ofRun("web", runId, "result");
  expect(result.json).toEqual(record.result);
  expect(record.responseBytes).toBe(Buffer.byteLength(result.text));
  expect((await site().ofRun("web", runId, "input")).text).toBe('{"a":1}');
  await until("it was forwarded", () => target.received.length === 1, target.news);
  expect(target.received[0]?.body.toString()).toBe(result.text);
  expect(target.received[0]?.headers["content-type"]).toBe("application/json");
});

verifies("servers.async", "a sync POST is forwarded too, and one with a bad address is refused", async () => {
  const target = await WebhookTarget.open();
  const suffix = `?webhookEndpoint=${encodeURIComponent(`${target.url}/hook`)}`;
  const answer = await site().call("web", "", { functionName: "stream", suffix });
  expect(answer.text).toBe("data: 0\n\ndata: 1\n\ndata: 2\n\n");
  await until("it was forwarded", () => target.received.length === 1, target.news);
  expect(target.received[0]?.body.toString()).toBe(answer.text);
  const refused = await site().call("web", {}, { suffix: "?webhookEndpoint=ftp%3A%2F%2Fx" });
  expect(refused.status).toBe(422);
  const odd = await site().call("web", {}, { suffix: "?async=maybe" });
  expect(odd.status).toBe(400);
});

verifies("servers.async", "an answer over max_result fails the run", async () => {
  const answer = await site().call("web", {}, { functionName: "bytes", suffix: "?count=2000000&async=true" });
  const record = await ended(answer.json.run_id);
  expect(record).toMatchObject({ status: "failure", statusCode: 500, error: { code: "result_too_large" } });
});

verifies(["servers.died", "servers.async"], "a run whose replica dies starts again", async () => {
  const answer = await site().call("web", {}, { functionName: "slow", suffix: "?async=true" });
  const begun = (): number => site().logs.filter(({ text }) => text === "slow has begun").length;
  await until("it runs", () => begun() === 1);
  const [replica] = site().apps.get("web")?.pool.replicas ?? [];
  process.kill(replica?.pid ?? 0, "SIGKILL");
  await until("it runs again", () => begun() === 2);
  writeFileSync(path.join(site().bundleDir("web"), "go"), "");
  expect(await ended(answer.json.run_id)).toMatchObject({
    status: "success",
    attempt: 2,
    result: { slow: true },
  });
});

verifies(["retry.on", "retry.attempts"], "an answer with a status from 500 is tried again", async () => {
  const answer = await site().call("again", {}, { suffix: "?status=503&async=true" });
  const record = await ended(answer.json.run_id, "again");
  expect(record).toMatchObject({ status: "failure", statusCode: 503, attempt: 2, error: null });
  expect(record.attempts).toMatchObject([
    { number: 1, error: { code: "app_error", message: "The app answered with status 503." } },
    { number: 2, error: null },
  ]);
});
