import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { SkippingClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";
import { recordOf } from "../async/site.ts";
import { pair } from "./pair.ts";

const MAIN = `
import os
import time

def run(gate):
    while not os.path.exists(gate):
        time.sleep(0.005)
`;
const clock = new SkippingClock();
const both = pair(
  { app: { main: MAIN, toml: '[scaling]\nmax_replicas = 1\nresponse_grace_period = "12h"\n' } },
  { webhookAllow: "127.0.0.0/8" },
  { clock },
);

verifies(["terms.ttl", "terms.timeout"], "of two services that see late runs, one ends each", async () => {
  const target = await WebhookTarget.open();
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const gate = path.join(folder, "go");
  const hook = encodeURIComponent(target.url);
  const { owner, other } = await both.sides("app");
  const call = async (query: string): Promise<string> => {
    const suffix = `?async=true&webhookEndpoint=${hook}&${query}`;
    const { status, json } = await other.call("app", { gate }, { suffix });
    expect(status).toBe(202);
    return json.run_id;
  };
  const ids = [await call("timeout=1m")];
  await until("it runs", async () => (await recordOf(owner, "app", ids[0]!)).status === "running");
  for (let i = 0; i < 30; i++) ids.push(await call(i % 2 ? "ttl=1m" : "delay=10s&ttl=30s&timeout=45s"));
  clock.leap(2 * 60_000);
  const codes = async () =>
    await Promise.all(ids.map(async (id) => (await recordOf(other, "app", id)).error?.code));
  await until("all have ended", async () => (await codes()).every((code) => code !== undefined));
  expect(await codes()).toEqual(["timed_out", ...Array.from({ length: 30 }, () => "expired")]);
  await until("all were forwarded", () => target.received.length >= ids.length, target.news);
  writeFileSync(gate, "");
  await until("nothing is left to look at", async () => {
    clock.leap(60_000);
    const now = clock.now() + 600_000;
    return (await owner.service.store.limits.passed({ now, limit: 1 })).length === 0;
  });
  expect(target.received.length).toBe(ids.length);
});
