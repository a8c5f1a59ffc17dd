import { writeFileSync } from "node:fs";
import { beforeAll, expect } from "vitest";
import { SkippingClock } from "../../support/clocks.ts";
import { ManagementSite } from "../../support/management-site.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openEvents, openStream } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { bundleFile, ended, ledger, MAIN, ONE, recordOf, submit } from "./site.ts";

const clock = new SkippingClock();
const SLOW_SETUP = `
import os
import time

def setup():
    while not os.path.exists("go"):
        time.sleep(0.005)

def run(n=0):
    return n

def fail():
    raise ValueError("no")
`;
const service = sharedService({ cold: { main: SLOW_SETUP, toml: ONE } }, WITHOUT_WALLS, { clock });
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(service());
});

/** An app whose only slot is in use, until `go`. */
async function blocked() {
  const app = await service().own({ main: MAIN, toml: ONE });
  const first = await submit(service(), app, { n: 0 }, { functionName: "hold" });
  await until("the slot is in use", () => ledger(service(), app).includes("0"));
  const wait = async (n: number): Promise<string> =>
    await submit(service(), app, { n }, { functionName: "hold" });
  return { app, first, wait, go: () => writeFileSync(bundleFile(service(), app, "go"), "") };
}

verifies(
  ["queue.expected", "queue.events"],
  "the record and the events of a waiting run have its place, until it starts",
  async () => {
    const { app, first, wait, go } = await blocked();
    const [second, third] = [await wait(1), await wait(2)];
    const record = await recordOf(service(), app, third);
    // No run of the app has ended: nothing is known.
    expect(record).toMatchObject({ status: "queued", position: 2 });
    expect(record).not.toHaveProperty("expectedStartAt");
    const reader = openEvents(service(), app, third);
    await until("its place", () => reader.places.length > 0);
    expect(reader.text).toMatch(/^event: queue\ndata: \{/);
    expect(JSON.parse(reader.places[0]!)).toEqual({ position: 2, expectedStartAt: null, phase: "queued" });
    go();
    for (const id of [first, second]) await ended(service(), app, id);
    await reader.ended();
    expect(reader.end?.record).toMatchObject({ id: third, status: "success" });
    expect(reader.end?.record).not.toHaveProperty("position");
    expect(reader.text.lastIndexOf("event: queue")).toBeLessThan(reader.text.indexOf("id: 1"));
  },
);

verifies("queue.expected", "it is known once runs have ended, and both APIs tell the same", async () => {
  const app = await service().own({ main: MAIN, toml: ONE });
  // After short runs, more are claimed than there are slots: a run may wait in the store or on its way to a replica.
  for (const n of [0, 0, 0]) await service().call(app, { n });
  const hold = async (n: number): Promise<string> =>
    await submit(service(), app, { n }, { functionName: "hold_one" });
  const ids = [await hold(1)];
  await until("the slot is in use", () => ledger(service(), app).includes("1"));
  ids.push(await hold(2), await hold(3));
  const last = ids.at(-1)!;
  const records = async () => [
    (await site.call("getRun", { app_id: `${site.projectId}-${app}`, run_id: last })).json.item,
    await recordOf(service(), app, last),
  ];
  let told = await records();
  await until("its place is known", async () => {
    told = await records();
    return told.every(({ position }) => position === 2);
  });
  for (const { status, expectedStartAt, createdAt } of told) {
    expect(status).toBe("queued");
    expect(Date.parse(expectedStartAt)).toBeGreaterThanOrEqual(Date.parse(createdAt));
  }
  for (const n of [1, 2, 3]) writeFileSync(bundleFile(service(), app, `go${n}`), "");
  for (const id of ids) await ended(service(), app, id);
});

const PROGRESS = { accept: "text/event-stream", prefer: "progress" };

verifies("queue.told", "a waiting stream has its headers at once, and comments with its place", async () => {
  const { app, first, go } = await blocked();
  const stream = openStream(service(), app, { to: 2 }, { functionName: "count", headers: PROGRESS });
  const head = await stream.hasHead();
  expect([head.status, stream.header("preference-applied")]).toEqual([200, "progress"]);
  await until("its place", () => stream.comments.some((text) => text.startsWith("queue ")));
  const told = stream.comments.find((text) => text.startsWith("queue "))!.slice("queue ".length);
  expect(JSON.parse(told)).toEqual({ position: 1, expectedStartAt: null, phase: "queued" });
  go();
  await stream.ended();
  expect([stream.isWhole, stream.data]).toEqual([true, ["0", "1"]]);
  await ended(service(), app, first);
});

verifies("queue.told", "and is told how far a cold start is", async () => {
  const stream = openStream(service(), "cold", { n: 5 }, { headers: PROGRESS });
  await until("the phase of its start", () => stream.comments.some((text) => text.includes('"setup"')));
  writeFileSync(bundleFile(service(), "cold", "go"), "");
  await stream.ended();
  // A plain value becomes a stream of one message.
  expect([stream.isWhole, stream.data]).toEqual([true, ["5"]]);
});

verifies("queue.told.failure", "what fails then is an event, and the answer is broken off", async () => {
  const { app, first, go } = await blocked();
  const failing = openStream(service(), app, {}, { functionName: "fail", headers: PROGRESS });
  const status = openStream(service(), app, { code: 404 }, { functionName: "status", headers: PROGRESS });
  for (const stream of [failing, status]) expect((await stream.hasHead()).status).toBe(200);
  go();
  for (const stream of [failing, status]) {
    await stream.ended();
    expect(stream.isWhole).toBe(false);
    expect(stream.messages.map(({ event }) => event)).toEqual(["error"]);
    expect(JSON.parse(stream.data[0]!)).toMatchObject({ code: "app_error", request_id: stream.runId });
  }
  await ended(service(), app, first);
});

verifies("queue.told", "a call that need not wait, or wants no stream, is answered as ever", async () => {
  const app = await service().own({ main: MAIN, toml: ONE });
  await service().call(app);
  const failing = openStream(service(), app, {}, { functionName: "fail", headers: PROGRESS });
  expect((await failing.hasHead()).status).toBe(500);
  const plain = await service().call(app, { n: 1 }, { headers: { prefer: "progress" } });
  expect([plain.status, plain.json.result]).toEqual([200, 1]);
});
