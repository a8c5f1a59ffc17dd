import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { SkippingClock } from "../../support/clocks.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { ended, look, recordOf } from "./site.ts";

/** Notes its name in a file, and waits for another file if it is asked to. */
const MAIN = `
import os
import time

def run(name, folder, gate=None):
    with open(os.path.join(folder, "order"), "a") as order:
        order.write(name + " ")
    while gate and os.path.exists(folder) and not os.path.exists(os.path.join(folder, gate)):
        time.sleep(0.005)
    return name

def fail(name, folder):
    run(name, folder)
    raise ValueError(name)
`;
const SERVER = `
import http.server, os

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        body = self.path.encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
`;
const TOML =
  '[scaling]\nmax_replicas = 1\nresponse_grace_period = "12h"\n[retry]\non = ["error"]\ninitial_delay = "10m"\njitter = 0\n';

const clock = new SkippingClock();
const service = sharedService(
  {
    queue: { main: MAIN, toml: TOML },
    web: {
      main: SERVER,
      toml: '[runtime.custom]\nentrypoint = ["python3", "main.py"]\nport = 8000\n',
    },
  },
  WITHOUT_WALLS,
  { clock },
);

const MINUTE_MS = 60_000;

/**
 * A new app: how fast calls of an app were decides how many runs are taken out of the queue before there is a free slot, and
 * those have their order.
 */
async function newQueue(): Promise<string> {
  return await service().own({ main: MAIN, toml: TOML });
}

/** A folder for the runs of a test. `call` submits one of them; `free` lets those go on that wait at that gate. */
function scene(app = "queue") {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = (name: string) => path.join(folder, name);
  writeFileSync(file("order"), "");
  const call = async (
    name: string,
    query: string,
    { gate, functionName = "run", headers = {} }: CallShape = {},
  ): Promise<string> => {
    const suffix = `?async=true${query && `&${query}`}`;
    const body = { name, folder, ...(gate && { gate }) };
    const answer = await service().call(app, body, { functionName, suffix, headers });
    expect([answer.status, answer.text]).toEqual([202, expect.stringContaining("run_id")]);
    return answer.json.run_id;
  };
  const order = (): string[] => readFileSync(file("order"), "utf8").split(" ").filter(Boolean);
  const free = (gate: string): void => writeFileSync(file(gate), "");
  /** Holds the only slot of the app until it is freed. */
  const block = async (): Promise<string> => {
    const id = await call("first", "", { gate: "go" });
    await until("the slot is in use", () => order().includes("first"));
    return id;
  };
  return { call, order, free, block };
}
type CallShape = { gate?: string; functionName?: string; headers?: Record<string, string> };

const record = async (id: string, app = "queue") => await recordOf(service(), app, id);
const over = async (id: string, app = "queue") => await ended(service(), app, id);

verifies("terms.priority", "runs with a head start come before earlier ones, and later without", async () => {
  const app = await newQueue();
  const { call, order, free, block } = scene(app);
  await block();
  const ids = [];
  for (const [name, query] of [
    ["low", "priority=low"],
    ["plain", ""],
    ["normal", "priority=normal"],
    ["high", "priority=high"],
    ["most", "priority=3600"],
  ] as const)
    ids.push(await call(name, query));
  free("go");
  for (const id of ids) expect((await over(id, app)).status).toBe("success");
  expect(order()).toEqual(["first", "most", "high", "plain", "normal", "low"]);
  expect((await record(ids[3]!, app)).priority).toBe(600);
  expect(await record(ids[1]!, app)).not.toHaveProperty("priority");
});

verifies("queue.position", "the record of a waiting run has its position", async () => {
  const app = await newQueue();
  const { call, free, block } = scene(app);
  await block();
  const ids = [await call("a", ""), await call("b", "priority=high"), await call("c", "delay=1h")];
  const positions = await Promise.all(ids.map(async (id) => (await record(id, app)).position));
  expect(positions).toEqual([2, 1, undefined]);
  free("go");
  for (const id of ids.slice(0, 2)) expect(await over(id, app)).not.toHaveProperty("position");
  await service().call(app, {}, { functionName: `runs/${ids[2]}/cancel` });
});

verifies(
  "terms.aging",
  "a waiting run passes a later one with more head start once it has waited longer",
  async () => {
    const app = await newQueue();
    const { call, order, free, block } = scene(app);
    await block();
    const old = await call("old", "priority=low");
    clock.leap(11 * MINUTE_MS);
    const young = await call("young", "");
    const favoured = await call("favoured", "priority=high");
    free("go");
    for (const id of [old, young, favoured]) await over(id, app);
    expect(order()).toEqual(["first", "favoured", "old", "young"]);
  },
);

verifies(
  "terms.delay",
  "a delayed run waits, is counted from the end of its delay, and can be cancelled",
  async () => {
    const { call, order } = scene();
    const id = await call("later", "delay=1h");
    const cancelled = await call(
      "never",
      "delay=2026-12-01T00:00:00Z&delay_=x&ttl=1h".replace("2026-12-01", soon()),
    );
    expect(await record(id)).toMatchObject({ status: "queued", startedAt: null });
    const { dueAt = "", createdAt } = await record(id);
    expect(Date.parse(dueAt) - Date.parse(createdAt)).toBeGreaterThan(59 * MINUTE_MS);
    const now = await call("now", "");
    await over(now);
    expect(order()).toEqual(["now"]);
    const { json } = await service().call("queue", {}, { functionName: `runs/${cancelled}/cancel` });
    expect(json).toEqual({ run_id: cancelled });
    clock.leap(61 * MINUTE_MS);
    expect(await over(id)).toMatchObject({ status: "success" });
    expect(await record(id)).not.toHaveProperty("dueAt");
    expect((await record(cancelled)).status).toBe("cancelled");
    expect(order()).toEqual(["now", "later"]);
  },
);

/** A day within the longest delay. */
function soon(): string {
  return new Date(clock.now() + 10 * 24 * 60 * MINUTE_MS).toISOString().slice(0, 10);
}

verifies(
  "terms.ttl",
  "a run that has not begun in time ends as expired, in the queue and after its delay",
  async () => {
    const { call, order, free, block } = scene();
    const first = await block();
    const id = await call("late", "ttl=5m&tag=x");
    const delayed = await call("delayed", "delay=10m&ttl=5m");
    clock.leap(6 * MINUTE_MS);
    expect(await over(id)).toMatchObject({ status: "failure", statusCode: 504, error: { code: "expired" } });
    expect((await record(delayed)).status).toBe("queued");
    const { json, status } = await look(service(), "queue", id, "/result");
    expect([status, json.error.code]).toEqual([504, "expired"]);
    clock.leap(10 * MINUTE_MS);
    expect(await over(delayed)).toMatchObject({ status: "failure", error: { code: "expired" } });
    free("go");
    expect((await over(first)).status).toBe("success");
    expect(order()).toEqual(["first"]);
  },
);

verifies("terms.ttl", "a run that has begun in time may go on", async () => {
  const { call, free, order } = scene();
  const id = await call("begun", "ttl=5m", { gate: "go" });
  await until("it has begun", () => order().includes("begun"));
  clock.leap(6 * MINUTE_MS);
  free("go");
  expect((await over(id)).status).toBe("success");
});

verifies(
  "terms.timeout",
  "a run that takes longer than its timeout ends, while it runs and while it waits",
  async () => {
    const { call, order, free } = scene();
    const running = await call("running", "timeout=5m", { gate: "never" });
    await until("it has begun", () => order().includes("running"));
    const waiting = await call("waiting", "timeout=4m");
    expect((await record(waiting)).endBy).toBeDefined();
    clock.leap(6 * MINUTE_MS);
    for (const id of [running, waiting])
      expect(await over(id)).toMatchObject({
        status: "failure",
        statusCode: 504,
        error: { code: "timed_out", message: "The run exceeded its timeout." },
      });
    free("never");
    const next = await call("next", "");
    expect((await over(next)).status).toBe("success");
    expect(order()).toEqual(["running", "next"]);
  },
);

verifies(
  "terms.timeout",
  "an attempt that would begin too late is not made: the run keeps its own error",
  async () => {
    const { call, order } = scene();
    const id = await call("once", "timeout=5m", { functionName: "fail" });
    expect(await over(id)).toMatchObject({ status: "failure", attempt: 1, error: { code: "app_error" } });
    expect(order()).toEqual(["once"]);
  },
);

verifies("terms.attempts", "a call's own number of attempts wins over the app's", async () => {
  const { call, order } = scene();
  const once = await call("once", "max_attempts=1", { functionName: "fail" });
  expect(await over(once)).toMatchObject({ status: "failure", attempt: 1 });
  const twice = await call("twice", "maxAttempts=2", { functionName: "fail" });
  await until("it waits", async () => (await record(twice)).dueAt !== undefined);
  clock.leap(11 * MINUTE_MS);
  expect(await over(twice)).toMatchObject({ status: "failure", attempt: 2, maxAttempts: 2 });
  expect(order()).toEqual(["once", "twice", "twice"]);
});

verifies("terms.keys", "a call is the same whatever it asks of the queue", async () => {
  const { call, order } = scene();
  const headers = { "idempotency-key": "the-key" };
  const id = await call("one", "priority=high&tag=a", { headers });
  expect(await call("one", "priority=low&delay=1h", { headers })).toBe(id);
  expect(await call("one", "", { headers })).toBe(id);
  await over(id);
  expect(order()).toEqual(["one"]);
  expect(await record(id)).toMatchObject({ priority: 600, tags: ["a"] });
});

verifies("terms.names", "without async=true they are ignored, as any parameter", async () => {
  const { call: _call, order } = scene();
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const body = { name: "sync", folder };
  const { status } = await service().call("queue", body, {
    functionName: "run",
    suffix: "?priority=top&tag=",
  });
  expect([status, order()]).toEqual([200, []]);
  const wrong = await service().call("queue", body, { functionName: "run", suffix: "?async=true&ttl=0" });
  expect([wrong.status, wrong.json.error.code]).toEqual([400, "bad_request"]);
});

verifies("terms.servers", "a call of a server app asks with the prefix", async () => {
  const suffix = "?tag=mine&millrace_tag=ours&async=true&millrace_priority=5";
  const answer = await service().call("web", "", { functionName: "echo", suffix });
  const id = answer.json.run_id;
  const run = await ended(service(), "web", id);
  expect(run).toMatchObject({ status: "success", priority: 5, tags: ["ours"] });
  expect((await look(service(), "web", id, "/result")).text).toBe("/echo?tag=mine");
});
