import { expect } from "vitest";
import type { Store } from "../../../src/store/store.ts";
import { asOwner } from "../../support/as-owner.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { StreamReader } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";
import { ASYNC, cancel, ended, ledger, letGo, look, recordOf, submit } from "./site.ts";

/** Attempts fail until the last one, which is the third. */
const MAIN = `
import os
import time
import millrace

WORD = "old"

def note(line):
    with open("ledger", "a") as ledger:
        ledger.write(f"{line}\\n")

def run(n=0):
    attempt = millrace.run.attempt
    note(f"{n} {attempt}")
    if attempt < 3:
        raise ValueError(f"attempt {attempt}")
    return WORD

def hold(n=0):
    note(f"{n} {millrace.run.attempt}")
    while not os.path.exists("go"):
        time.sleep(0.005)
    raise ValueError("held")

def count(n=0):
    attempt = millrace.run.attempt
    for i in range(attempt + 1):
        yield f"{attempt}.{i}"
    if attempt < 3:
        raise ValueError(f"attempt {attempt}")

def plain():
    return 1
`;
const toml = (more: string): string =>
  `[scaling]\nmax_replicas = 1\n[retry]\non = ["error"]\njitter = 0\n${more}\n`;
const TOML = toml('max_attempts = 3\ninitial_delay = "1h"');
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Holds the write that puts runs back into the queue while a test wants it to. */
class ReleaseGate {
  before: Promise<void> | null = null;
  held = 0;
  readonly aroundStore = (store: Store): Store => ({
    ...store,
    claims: {
      ...store.claims,
      release: async (released) => {
        if (this.before) this.held += 1;
        await this.before;
        await store.claims.release(released);
      },
    },
  });
}

const clock = new SkippingClock();
const gate = new ReleaseGate();
const service = sharedService(
  { app: { main: MAIN, toml: TOML } },
  { ...WITHOUT_WALLS, webhookAllow: "127.0.0.0/8" },
  {
    clock,
    aroundStore: gate.aroundStore,
  },
);

async function waits(app: string, id: string, attempt = 2): Promise<void> {
  await until(`it waits for attempt ${attempt}`, async () => {
    const run = await recordOf(service(), app, id);
    return run.dueAt !== undefined && run.attempt === attempt;
  });
}

/** Lets the run's waits pass. */
async function finish(app: string, id: string) {
  await waits(app, id);
  clock.leap(HOUR_MS + 1);
  await waits(app, id, 3);
  clock.leap(2 * HOUR_MS + 1);
  return await ended(service(), app, id);
}

verifies(
  "retry.cancel",
  "a run that is cancelled while its failed attempt is being stored begins no more",
  async () => {
    const app = await service().own({ main: MAIN, toml: TOML });
    const { promise, resolve } = Promise.withResolvers<void>();
    gate.before = promise;
    const id = await submit(service(), app, { n: 1 });
    await until("its end is being stored", () => gate.held === 1);
    const cancelled = cancel(service(), app, id);
    // The cancel has come by then.
    for (let n = 0; n < 5; n++) await service().call(app, {}, { functionName: "plain" });
    gate.before = null;
    resolve();
    const { status, json } = await cancelled;
    expect([status, json]).toEqual([202, { run_id: id }]);
    expect(await recordOf(service(), app, id)).toMatchObject({ status: "cancelled" });
    clock.leap(DAY_MS);
    expect((await service().call(app, {}, { functionName: "plain" })).status).toBe(200);
    expect(ledger(service(), app)).toEqual(["1 1"]);
  },
);

verifies(
  "retry.deleted",
  "a run that fails after its app was deleted ends then, not when it would be due",
  async () => {
    const on = service();
    const target = await WebhookTarget.open();
    const app = await on.own({ main: MAIN, toml: TOML });
    const suffix = `?async=true&webhookEndpoint=${encodeURIComponent(target.url)}`;
    const { json } = await on.call(app, { n: 1 }, { suffix, functionName: "hold" });
    await until("it runs", () => ledger(on, app).length === 1);
    const { app: deleted, pool } = on.apps.get(app)!;
    const { projectId } = on.service.owner;
    const { promise, resolve } = Promise.withResolvers<void>();
    const { held } = gate;
    gate.before = promise;
    await asOwner(on)("DELETE", `/v2/projects/${projectId}/apps/${projectId}-${app}`);
    letGo(on, app);
    // Its failed attempt is stored only when all else of the app is over.
    await until(
      "its end is being stored, its replicas are gone",
      () => gate.held > held && pool.replicas.size === 0,
    );
    for (let n = 0; n < 5; n++) await on.call("app", {}, { functionName: "plain" });
    gate.before = null;
    resolve();
    await target.has(1);
    expect(await on.service.store.runs.find({ appNumber: deleted.number, id: json.run_id })).toMatchObject({
      state: "failure",
      errorCode: "app_not_found",
    });
  },
);

verifies("retry.on", "a run keeps the rules and the code that it was accepted with", async () => {
  const on = service();
  const app = await on.own({ main: MAIN, toml: TOML });
  const id = await submit(on, app, { n: 1 });
  await waits(app, id);
  await on.deploy(app, { main: MAIN.replace("old", "new"), toml: toml("max_attempts = 1") });
  expect(await finish(app, id)).toMatchObject({ status: "success", attempt: 3, result: "old" });
  const next = await submit(on, app, { n: 2 });
  expect(await ended(on, app, next)).toMatchObject({ status: "failure", attempt: 1 });
});

verifies(
  "retry.attempts",
  "a repeat with the same key gets the run that waits, and its webhook comes once",
  async () => {
    const target = await WebhookTarget.open();
    const app = await service().own({ main: MAIN, toml: TOML });
    const suffix = `?async=true&webhookEndpoint=${encodeURIComponent(target.url)}`;
    const headers = { "idempotency-key": "again" };
    const call = async () => await service().call(app, { n: 1 }, { suffix, headers });
    const { run_id: id } = (await call()).json;
    await waits(app, id);
    const again = await call();
    expect([again.json.run_id, again.headers.get("idempotent-replayed")]).toEqual([id, "true"]);
    const asked = await look(service(), app, id, "/result", { prefer: "wait=0" });
    expect([asked.status, asked.json]).toEqual([202, { run_id: id, status: "queued" }]);
    expect(target.received).toEqual([]);
    expect(await finish(app, id)).toMatchObject({ status: "success", attempt: 3 });
    await target.has(1);
    expect((await call()).json.run_id).toBe(id);
    await until(
      "it is known that it came",
      async () => (await recordOf(service(), app, id)).webhookStatus === "delivered",
    );
    const sent = target.received.map(({ headers: head, body }) => [
      head["webhook-id"],
      JSON.parse(String(body)),
    ]);
    expect(sent).toEqual([[id, expect.objectContaining({ result: "old" })]]);
    expect(ledger(service(), app)).toEqual(["1 1", "1 2", "1 3"]);
  },
);

verifies("retry.attempts", "readers of events wait with the run, and get its end once", async () => {
  const on = service();
  const app = await on.own({ main: MAIN, toml: TOML });
  const id = (await on.call(app, {}, { ...ASYNC, functionName: "count" })).json.run_id as string;
  const read = (after: number) =>
    new StreamReader({
      url: on.url(app, `runs/${id}/events`),
      body: "",
      method: "GET",
      token: on.service.owner.token,
      ...(after > 0 && { headers: { "last-event-id": String(after) } }),
    });
  const first = read(0);
  await waits(app, id);
  const second = read(0);
  const third = read(2);
  await until("the first reader has what there is", () => first.messages.length >= 2);
  expect(await finish(app, id)).toMatchObject({ status: "success", attempt: 3 });
  for (const reader of [first, second, third])
    await until("the stream ends", () => reader.isClosed || reader.isWhole);
  // A new attempt's events are numbered from 1 again: each reader gets those after its own last one.
  const numbersOf = (messages: readonly { id: string | null }[]) =>
    messages.slice(0, -1).map(({ id: number }) => number);
  expect([first, second, third].map(({ messages }) => numbersOf(messages))).toEqual([
    ["1", "2", "3", "4"],
    ["1", "2", "3", "4"],
    ["3", "4"],
  ]);
  for (const { messages, isWhole } of [first, second, third]) {
    expect([isWhole, messages.filter(({ event }) => event === "end").length]).toEqual([true, 1]);
    expect(messages.at(-1)?.event).toBe("end");
  }
});
