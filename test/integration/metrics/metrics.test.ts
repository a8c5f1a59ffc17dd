import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import { type Metric, METRICS } from "../../../src/management/metrics/table.ts";
import { type Exposition, parseExposition } from "../../support/exposition.ts";
import { DeployClient } from "../../support/deploy-client.ts";
import { zipOf } from "../../support/zip.ts";
import { sharedService } from "../../support/shared-service.ts";
import { type TestService, testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { verifies } from "../../verifies.ts";

const APP = `
import os, time

def run(n=1):
    return n

def fail():
    raise ValueError("no")

def gated(dir):
    open(os.path.join(dir, "begun"), "w").close()
    while not os.path.exists(os.path.join(dir, "open")):
        time.sleep(0.01)

def die():
    os._exit(3)
`;
const ONE_REPLICA = "[scaling]\nmax_replicas = 1\n";

async function scrape(test: TestService): Promise<Exposition> {
  const response = await fetch(`${test.service.baseUrl}/metrics`);
  expect([response.status, response.headers.get("content-type")]).toEqual([
    200,
    "text/plain; version=0.0.4; charset=utf-8",
  ]);
  return parseExposition(await response.text());
}

/** The value of a metric with those labels among others. */
function valueOf({ samples }: Exposition, name: string, labels: Record<string, string> = {}): number {
  const found = samples.filter(
    (sample) =>
      sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
  );
  expect(found, `${name} ${JSON.stringify(labels)}`).toHaveLength(1);
  return found[0]!.value;
}

const shared = sharedService(
  {
    app: { main: APP, toml: ONE_REPLICA },
    idle: { main: APP },
    counted: { main: APP },
    queue: { main: APP, toml: ONE_REPLICA },
    hooked: { main: APP },
  },
  { webhookAllow: "127.0.0.0/8" },
);

verifies("operations.metrics", "runs, replicas and starts are counted by app and state", async () => {
  const test = shared();
  for (let i = 0; i < 3; i++) await test.call("app");
  await test.call("app", {}, { functionName: "fail" });
  expect((await test.call("app", {}, { functionName: "die" })).status).toBe(502);
  const accepted = await test.call("app", {}, { suffix: "?async=true" });
  await until("the async run ends", async () => {
    return (await test.ofRun("app", accepted.json.run_id)).json.status === "success";
  });
  const found = await scrape(test);
  const app = { project: test.service.owner.projectId, app: "app" };
  const runs = (state: string) => valueOf(found, "millrace_runs_total", { ...app, state });
  expect([runs("success"), runs("failure"), runs("cancelled")]).toEqual([4, 2, 0]);
  expect(valueOf(found, "millrace_replica_starts_total", app)).toBe(2);
  expect(valueOf(found, "millrace_cold_starts_total", app)).toBe(2);
  expect(valueOf(found, "millrace_replica_deaths_total", app)).toBe(1);
  expect(valueOf(found, "millrace_replicas", { ...app, state: "ready" })).toBe(1);
  expect(valueOf(found, "millrace_runs_lost_total")).toBe(0);
  expect(valueOf(found, "millrace_build_info", { store: "sqlite" })).toBe(1);
  expect(valueOf(found, "millrace_commit_seconds_count")).toBeGreaterThan(0);
  expect(valueOf(found, "millrace_commit_seconds_bucket", { le: "+Inf" })).toBe(
    valueOf(found, "millrace_commit_seconds_count"),
  );
  // The hosted original's names have the same.
  const hosted = { project_id: test.service.owner.projectId, app_id: `${app.project}-app`, app_name: "app" };
  const counts = ["run_total", "run_successes_total", "run_errors_total", "containers_ready_count"];
  expect(counts.map((name) => valueOf(found, `cerebrium_${name}`, { ...hosted, region: "local" }))).toEqual([
    6, 4, 2, 1,
  ]);
  expect(valueOf(found, "cerebrium_memory_usage_bytes", hosted)).toBeGreaterThan(1e6);
  for (const [ours, theirs] of [
    ["response", "response"],
    ["queue", "queue"],
    ["cold_start", "coldstart"],
    ["execution", "execution"],
  ]) {
    const sum = (name: string) =>
      found.samples
        .filter(({ name: each, labels }) => each === name && (labels["app"] ?? labels["app_name"]) === "app")
        .reduce((total, { value }) => total + value, 0);
    const [count, ms] = [`millrace_${ours}_seconds_count`, `cerebrium_run_${theirs}_time_ms_sum`].map(sum);
    expect([theirs, count]).toEqual([theirs, sum(`cerebrium_run_${theirs}_time_ms_count`)]);
    expect(ms).toBeCloseTo(sum(`millrace_${ours}_seconds_sum`) * 1000, 3);
  }
});

verifies(
  ["metrics.functions", "metrics.zero"],
  "times, errors and calls in flight by function; an app that was never called has all of it, at 0",
  async () => {
    const test = shared();
    const { projectId: project, token } = test.service.owner;
    const deployed = new DeployClient(
      { baseUrl: test.service.baseUrl, projectId: project, token },
      "deployed",
    );
    expect(await deployed.deploy(await zipOf({ "main.py": APP }))).toMatchObject({ status: "success" });
    await test.call("counted");
    await test.call("counted", {}, { functionName: "fail" });
    await test.call("counted", { n: 1, m: 2 });
    const found = await scrape(test);
    const of = (name: string) => ({ project, app: "counted", function: name });
    expect(valueOf(found, "millrace_response_seconds_count", of("run"))).toBe(2);
    expect(valueOf(found, "millrace_execution_seconds_count", of("fail"))).toBe(1);
    expect(valueOf(found, "millrace_cold_start_seconds_count", of("run"))).toBe(1);
    const failed = (name: string, code: string) =>
      valueOf(found, "millrace_run_errors_total", { ...of(name), code });
    expect([
      failed("fail", "app_error"),
      failed("run", "invalid_arguments"),
      failed("run", "app_error"),
    ]).toEqual([1, 1, 0]);
    const ofIdle = found.samples.filter(({ labels }) => (labels["app"] ?? labels["app_name"]) === "deployed");
    // The deploy has started a replica to see whether it can.
    const isOfReplicas = /replica|containers|cold_starts_total|utilization|usage/;
    expect(ofIdle.filter(({ name, value }) => value !== 0 && !isOfReplicas.test(name))).toEqual([]);
    const ofCounted = found.samples.filter(
      ({ labels }) => (labels["app"] ?? labels["app_name"]) === "counted",
    );
    // Both apps have the same functions.
    expect(ofIdle.map(({ name }) => name).toSorted()).toEqual(ofCounted.map(({ name }) => name).toSorted());
  },
);

verifies(
  ["metrics.openmetrics", "metrics.hosted"],
  "a scraper that asks for OpenMetrics gets it",
  async () => {
    const test = shared();
    const accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    const response = await fetch(`${test.service.baseUrl}/metrics`, { headers: { accept } });
    expect(response.headers.get("content-type")).toBe(
      "application/openmetrics-text; version=1.0.0; charset=utf-8",
    );
    const text = await response.text();
    expect(text).toMatch(/\n# EOF\n$/);
    expect(text).not.toContain("\n\n");
    const { types } = parseExposition(text);
    expect(types.get("cerebrium_run")).toBe("counter");
    expect(types.get("cerebrium_run_execution_time_ms")).toBe("histogram");
  },
);

verifies("operations.metrics", "what waits is shown with its age, and gone when it is over", async () => {
  const test = shared();
  const dir = test.directory;
  const running = test.call("queue", { dir }, { functionName: "gated" });
  await until("it runs", () => existsSync(path.join(dir, "begun")));
  const waiting = test.call("queue");
  const accepted = await Promise.all(
    Array.from({ length: 5 }, () => test.call("queue", {}, { suffix: "?async=true" })),
  );
  const app = { project: test.service.owner.projectId, app: "queue" };
  let found = await scrape(test);
  await until("a caller waits for a moment", async () => {
    found = await scrape(test);
    return valueOf(found, "millrace_queue_oldest_seconds", app) > 0.05;
  });
  expect(valueOf(found, "millrace_runs_running", app)).toBe(1);
  expect(valueOf(found, "millrace_runs_waiting", app)).toBeGreaterThanOrEqual(1);
  // One of them at most is claimed already: the app has one slot.
  expect(valueOf(found, "millrace_async_queued", app)).toBeGreaterThanOrEqual(4);
  expect(valueOf(found, "millrace_async_oldest_seconds", app)).toBeGreaterThan(0);

  const first = accepted.at(-1)?.json.run_id as string;
  expect((await test.ofRun("queue", first, "cancel", { method: "POST" })).status).toBe(202);
  await writeFile(path.join(dir, "open"), "");
  await Promise.all([running, waiting]);
  await until("all have ended", async () => {
    found = await scrape(test);
    return valueOf(found, "millrace_runs_total", { ...app, state: "success" }) === 6;
  });
  expect(valueOf(found, "millrace_runs_total", { ...app, state: "cancelled" })).toBe(1);
  expect(valueOf(found, "millrace_queue_oldest_seconds", app)).toBe(0);
  expect(valueOf(found, "millrace_async_queued", app)).toBe(0);
  expect(valueOf(found, "millrace_async_oldest_seconds", app)).toBe(0);
});

verifies("operations.metrics", "webhooks are counted by result, and what is pending has an age", async () => {
  const target = await WebhookTarget.open();
  const test = shared();
  const hook = (url: string) => `?webhookEndpoint=${encodeURIComponent(url)}`;
  await test.call("hooked", {}, { suffix: hook(target.url) });
  // Nothing listens there.
  await test.call("hooked", {}, { suffix: hook("http://127.0.0.1:9/") });
  let found = await scrape(test);
  await until("both were tried, and one is done with", async () => {
    found = await scrape(test);
    const tried = (result: string) => valueOf(found, "millrace_webhook_attempts_total", { result });
    // An attempt is counted before what came of it is stored.
    const pending = valueOf(found, "millrace_webhooks_pending");
    return tried("delivered") === 1 && tried("retry") >= 1 && pending === 1;
  });
  expect(valueOf(found, "millrace_webhook_attempts_total", { result: "failed" })).toBe(0);
  expect(valueOf(found, "millrace_webhook_oldest_seconds")).toBeGreaterThan(0);
});

verifies(
  "operations.metrics.batches",
  "batches have sizes and reasons, of the functions that are batched",
  async () => {
    const test = shared();
    const main = "def run():\n    return 1\n\ndef embed(texts):\n    return texts\n";
    const { pool } = await test.deploy("batched", { main, toml: "[batching.embed]\n" });
    await test.call("batched");
    for (const size of [1, 3, 64]) pool.counts.batches.add("embed", size, size === 64 ? "full" : "window");
    // As a version before may have batched it.
    pool.counts.batches.add("rank", 1, "idle");
    const found = await scrape(test);
    const of = { project: test.service.owner.projectId, app: "batched", function: "embed" };
    const left = (reason: string) => valueOf(found, "millrace_batches_total", { ...of, reason });
    expect(["idle", "full", "window", "deadline", "drain"].map(left)).toEqual([0, 1, 2, 0, 0]);
    const upTo = (le: string) => valueOf(found, "millrace_batch_size_bucket", { ...of, le });
    expect(["1", "2", "4", "32", "64", "1024", "+Inf"].map(upTo)).toEqual([1, 1, 2, 2, 3, 3, 3]);
    expect(valueOf(found, "millrace_batch_size_sum", of)).toBe(68);
    expect(valueOf(found, "millrace_batch_size_count", of)).toBe(3);
    const ofBatches = found.samples.filter(({ name }) => name.startsWith("millrace_batch"));
    const named = new Set(ofBatches.map(({ labels }) => labels["function"]));
    expect([...named]).toEqual(["embed"]);
  },
);

verifies("operations.metrics", "every sample is announced, with the labels of the table", async () => {
  const test = shared();
  await test.call("app");
  const { types, samples } = await scrape(test);
  const table = Object.entries<Metric>(METRICS);
  expect([...types]).toEqual(table.map(([name, { kind }]) => [name, kind]));
  for (const { name, labels, value } of samples) {
    const [, metric] = table.find(([known, { kind }]) =>
      kind === "histogram" ? name.startsWith(`${known}_`) : name === known,
    ) ?? [name, null];
    const expected = name.endsWith("_bucket") ? [...(metric?.labels ?? []), "le"] : metric?.labels;
    expect([name, Object.keys(labels)]).toEqual([name, expected]);
    expect(Number.isFinite(value)).toBe(true);
  }
});

verifies(
  ["health.metrics", "health.verbose"],
  "on loopback without a public address both are open; else they take a token of the default project",
  async () => {
    const open = shared();
    const ask = async (
      { service }: TestService,
      place: string,
      token?: string,
    ): Promise<[number, string]> => {
      const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
      const response = await fetch(`${service.baseUrl}${place}`, { headers });
      return [response.status, await response.text()];
    };
    for (const place of ["/metrics", "/readyz?verbose"]) expect((await ask(open, place))[0]).toBe(200);
    expect(JSON.parse((await ask(open, "/readyz?verbose"))[1])).toMatchObject({ status: "ok", runsLost: 0 });

    for (const flags of [{ publicApiUrl: "https://apps.example.test" }, { host: "0.0.0.0" }]) {
      const closed = await testService({}, flags);
      const { owner, tokens, store } = closed.service;
      await store.projects.insert({ id: "p-other", name: "other", createdAt: 0 });
      const expiresAt = Date.now() + 60_000;
      const issue = async (projectId: string) =>
        (await tokens.issue({ projectId, name: "scraper", role: "run", expiresAt })).token;
      const [ours, other] = [await issue(owner.projectId), await issue("p-other")];
      for (const place of ["/metrics", "/readyz?verbose", "/readyz?verbose=false"]) {
        const status = async (token?: string) => (await ask(closed, place, token))[0];
        expect([await status(), await status("x"), await status(other)]).toEqual([401, 401, 403]);
        expect(await status(ours)).toBe(200);
      }
      expect((await ask(closed, "/readyz"))[0]).toBe(200);
    }
  },
);

verifies("hardening.rebinding", "a page that gave this machine a name of its own sees neither", async () => {
  const { service } = await testService();
  const { port } = new URL(service.baseUrl);
  const ask = async (host: string, place: string, headers: readonly string[] = []): Promise<number> => {
    await using connection = await RawConnection.open(service.baseUrl);
    connection.send(rawRequest(`GET ${place} HTTP/1.1`, [`Host: ${host}`, "Connection: close", ...headers]));
    return (await connection.answer()).status;
  };
  for (const place of ["/metrics", "/readyz?verbose"]) {
    for (const host of ["127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST", "[::1]"]) {
      expect([host, await ask(`${host}:${port}`, place)]).toEqual([host, 200]);
    }
    for (const host of [
      "rebound.example",
      "localhost.rebound.example",
      "127.0.0.1.rebound.example",
      "10.0.0.1",
    ]) {
      expect([host, await ask(`${host}:${port}`, place)]).toEqual([host, 401]);
    }
    expect(await ask("rebound.example", place, [`Authorization: Bearer ${service.owner.token}`])).toBe(200);
  }
  expect(await ask("rebound.example", "/readyz")).toBe(200);
});
