import { connect } from "node:net";
import { expect } from "vitest";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import os, time

def run():
    open("begun", "w").close()
    time.sleep(3600)

def stream():
    yield 1
    time.sleep(3600)
`;

verifies("wire.answered", "a service that stops answers everybody whose request it has", async () => {
  const app = { main: MAIN, toml: "[scaling]\nmax_replicas = 1\nreplica_concurrency = 8\n" };
  const service = await testService({ app }, { shutdownGrace: 0 });
  const { service: running } = service;
  const accepted = await service.call("app", {}, { suffix: "?async=true" });
  const runId = accepted.json.run_id as string;
  const asked = [
    service.call("app", {}),
    service.call("app", {}, { headers: { prefer: "wait=600" } }),
    service.ofRun("app", runId, "result", { headers: { prefer: "wait=600" } }),
  ];
  // One that never sends all of its body, and one that reads a stream.
  const { port } = new URL(running.apiUrl);
  const half = connect(Number(port), "127.0.0.1");
  half.on("error", () => {});
  half.write(
    `POST /v4/${running.owner.projectId}/app/run HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{`,
  );
  const stream = await fetch(service.url("app", "stream"), {
    method: "POST",
    headers: { authorization: `Bearer ${running.owner.token}`, "content-type": "application/json" },
    body: "{}",
  });
  const pool = service.apps.get("app")!.pool;
  const inHand = () => [...pool.replicas].reduce((sum, { calls }) => sum + calls.size, 0);
  await until("all are under way", () => inHand() === 4);
  await running.stop();
  const statuses = (await Promise.all(asked)).map(({ status }) => status);
  expect(statuses.slice(0, 2).every((status) => status === 503 || status === 202)).toBe(true);
  expect(statuses[2]).toBe(202);
  expect(running.unanswered()).toBe(0);
  await stream.text().catch(() => "");
  half.destroy();
});
