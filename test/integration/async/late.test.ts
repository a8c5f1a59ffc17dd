import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { asOwner } from "../../support/as-owner.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { type TestService, WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";
import { cancel, ended, look, recordOf, Site } from "./site.ts";

/** Each writes its name down, and waits for a file if it is asked to. */
const MAIN = `
import os
import time

def note(name, folder):
    with open(os.path.join(folder, "order"), "a") as order:
        order.write(name + " ")

def run(name, folder, gate=None):
    note(name, folder)
    while gate and not os.path.exists(os.path.join(folder, gate)):
        time.sleep(0.005)
    return name

def stream(name, folder, gate):
    yield 1
    note(name, folder)
    while not os.path.exists(os.path.join(folder, gate)):
        time.sleep(0.005)
    yield 2

def together(name: list, folder: list, gate: list):
    for each, where in zip(name, folder):
        note(each, where)
    while not os.path.exists(os.path.join(folder[0], gate[0])):
        time.sleep(0.005)
    return name
`;
const TOML =
  '[scaling]\nmax_replicas = 1\nresponse_grace_period = "12h"\n[batching.together]\nmax_size = 2\n';
const MINUTE_MS = 60_000;

const clock = new SkippingClock();
const FLAGS = { ...WITHOUT_WALLS, webhookAllow: "127.0.0.0/8" };
const service = sharedService({ queue: { main: MAIN, toml: TOML } }, FLAGS, { clock });

type Shape = { readonly gate?: string; readonly functionName?: string; readonly app?: string };

function scene(on: () => TestService = service) {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = (name: string) => path.join(folder, name);
  writeFileSync(file("order"), "");
  const call = async (
    name: string,
    query: string,
    { gate, functionName = "run", app = "queue" }: Shape = {},
  ) => {
    const body = { name, folder, ...(gate && { gate }) };
    const answer = await on().call(app, body, { functionName, suffix: `?async=true&${query}` });
    expect([answer.status, answer.text]).toEqual([202, expect.stringContaining("run_id")]);
    return answer.json.run_id as string;
  };
  const order = (): string[] => readFileSync(file("order"), "utf8").split(" ").filter(Boolean);
  const free = (gate: string): void => writeFileSync(file(gate), "");
  const begun = async (name: string) => await until(`${name} has begun`, () => order().includes(name));
  return { call, order, free, begun };
}

const over = async (id: string) => await ended(service(), "queue", id);

verifies("terms.timeout", "a stream ends with its timeout, and says so to its readers", async () => {
  const { call, free, begun } = scene();
  const id = await call("stream", "timeout=5m", { functionName: "stream", gate: "never" });
  await begun("stream");
  clock.leap(6 * MINUTE_MS);
  expect(await over(id)).toMatchObject({ status: "failure", statusCode: 504, error: { code: "timed_out" } });
  free("never");
  const { text } = await look(service(), "queue", id, "/events");
  expect(text).toMatch(/event: end\nid: \d\ndata: .*"timed_out"/);
});

verifies("terms.timeout", "of runs in one batch only the one that is late ends", async () => {
  const { call, free, begun } = scene();
  const before = await call("before", "", { gate: "together" });
  await begun("before");
  const [late, other] = await Promise.all([
    call("late", "timeout=5m", { functionName: "together", gate: "go" }),
    call("other", "", { functionName: "together", gate: "go" }),
  ]);
  free("together");
  await over(before);
  await begun("late");
  await begun("other");
  clock.leap(6 * MINUTE_MS);
  expect(await over(late)).toMatchObject({ status: "failure", error: { code: "timed_out" } });
  free("go");
  expect((await over(other)).status).toBe("success");
});

verifies(
  ["terms.ttl", "terms.timeout"],
  "the webhook of a late run is called once, wherever it waited",
  async () => {
    const target = await WebhookTarget.open();
    const { call, free, begun } = scene();
    const hook = `webhookEndpoint=${encodeURIComponent(target.url)}`;
    const running = await call("running", `timeout=5m&${hook}`, { gate: "go" });
    await begun("running");
    const ids = [running];
    for (const query of ["ttl=5m", "timeout=5m", "delay=1m&ttl=1m", "ttl=5m&timeout=5m", "ttl=4m&timeout=5m"])
      ids.push(await call("late", `${query}&${hook}`));
    for (let i = 0; i < 20; i++) ids.push(await call("late", `ttl=5m&${hook}`));
    clock.leap(6 * MINUTE_MS);
    const codes = [];
    for (const id of ids) codes.push((await over(id)).error?.code);
    expect(codes).toEqual([
      "timed_out",
      "expired",
      "timed_out",
      "expired",
      "expired",
      "expired",
      ...Array.from({ length: 20 }, () => "expired"),
    ]);
    await until("all were forwarded", () => target.received.length >= ids.length, target.news);
    clock.leap(2 * MINUTE_MS);
    free("go");
    await over(await call("next", ""));
    expect(target.received.length).toBe(ids.length);
    const { store } = service().service;
    await until("nothing is left to look at", async () => {
      clock.leap(MINUTE_MS);
      return (await store.limits.passed({ now: clock.now() + 10 * MINUTE_MS, limit: 100 })).length === 0;
    });
  },
);

verifies("terms.ttl", "a run that goes back to the queue with its service still has its limits", async () => {
  const site = new Site({ queue: { main: MAIN, toml: TOML } });
  const flags = { ...FLAGS, shutdownGrace: "1s" };
  const first = await site.start({ flags, clock });
  let current = first;
  const { call, begun, order } = scene(() => current);
  const running = await call("running", "timeout=20m", { gate: "never" });
  await begun("running");
  const waiting = await call("waiting", "ttl=10m");
  const delayed = await call("delayed", "delay=1h&ttl=10m");
  await first.service.stop();
  clock.leap(11 * MINUTE_MS);
  current = await site.start({ flags, clock });
  expect(await ended(current, "queue", waiting)).toMatchObject({ error: { code: "expired" } });
  clock.leap(10 * MINUTE_MS);
  expect(await ended(current, "queue", running)).toMatchObject({ error: { code: "timed_out" } });
  expect((await recordOf(current, "queue", delayed)).status).toBe("queued");
  clock.leap(40 * MINUTE_MS);
  expect(await ended(current, "queue", delayed)).toMatchObject({ status: "success" });
  expect(order().filter((name) => name !== "running")).toEqual(["delayed"]);
});

verifies(
  "terms.delay",
  "a delayed run ends with its app, and goes on with the version that accepted it",
  async () => {
    const on = service();
    const { call, order } = scene();
    const app = await on.own({ main: MAIN, toml: TOML });
    const kept = await call("kept", "delay=1h", { app });
    await on.deploy(app, {
      main: MAIN.replace("note(name, folder)\n    while", 'note("new", folder)\n    while'),
      toml: TOML,
    });
    clock.leap(61 * MINUTE_MS);
    expect(await ended(on, app, kept)).toMatchObject({ status: "success" });
    expect(order()).toEqual(["kept"]);
    const lost = await call("lost", "delay=1h", { app });
    const { number: appNumber } = on.apps.get(app)!.app;
    const { projectId } = on.service.owner;
    await asOwner(on)("DELETE", `/v2/projects/${projectId}/apps/${projectId}-${app}`);
    await until("it has ended", async () => {
      const run = await on.service.store.runs.find({ appNumber, id: lost });
      return run?.state === "failure" && run.errorCode === "app_not_found";
    });
  },
);

verifies("terms.timeout", "a cancel in the moment of a limit: one of them ends the run", async () => {
  const target = await WebhookTarget.open();
  const { call, free, begun } = scene();
  const hook = `webhookEndpoint=${encodeURIComponent(target.url)}`;
  const running = await call("running", `timeout=5m&${hook}`, { gate: "go" });
  await begun("running");
  const ids = [running];
  for (let i = 0; i < 10; i++) ids.push(await call("waiting", `ttl=5m&${hook}`));
  const cancelling = ids.map((id) => cancel(service(), "queue", id));
  clock.leap(6 * MINUTE_MS);
  const cancelled = (await Promise.all(cancelling)).map(({ status }) => status);
  const ends = [];
  for (const id of ids) ends.push((await over(id)).status);
  expect(ends).toEqual(cancelled.map((status) => (status === 200 ? "cancelled" : "failure")));
  await until("all were forwarded", () => target.received.length >= ids.length, target.news);
  free("go");
  await over(await call("next", ""));
  expect(target.received.length).toBe(ids.length);
});
