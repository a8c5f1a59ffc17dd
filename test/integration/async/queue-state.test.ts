import { beforeAll, expect, test } from "vitest";
import { asOwner } from "../../support/as-owner.ts";
import { ManagementSite } from "../../support/management-site.ts";
import { type TestService, WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "../cli/client.ts";
import { ASYNC, ended, ledger, letGo, MAIN, ONE, recordOf, Site, submit } from "./site.ts";

const TWO = "[scaling]\nmax_replicas = 2\n";
const LIMITS = '[queue]\nmax_backlog = 1000\nrate_limit = "100000/1m"\n';
const service = sharedService({ app: { main: MAIN, toml: ONE } }, WITHOUT_WALLS);
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(service());
});

async function own(toml = ONE): Promise<string> {
  return await service().own({ main: MAIN, toml });
}

async function queue(app: string, verb: "get" | "pause" | "resume" | "drain" = "get") {
  const { status, json } = await site.call(`${verb}Queue`, { app_id: `${site.projectId}-${app}` });
  expect(status).toBe(200);
  return json.item;
}

/** Holds a slot of the app until it is let go. */
async function hold(app: string): Promise<string> {
  const id = await submit(service(), app, {}, { functionName: "hold" });
  await until("the slot is in use", () => ledger(service(), app).includes("0"));
  return id;
}

verifies("queue.pause", "while a queue is paused its runs wait, and sync calls are served", async () => {
  const app = await own(TWO);
  const held = await hold(app);
  expect(await queue(app, "pause")).toMatchObject({ state: "paused", running: 1 });
  const waiting = [await submit(service(), app, { n: 1 }), await submit(service(), app, { n: 2 })];
  expect((await service().call(app, { n: 3 })).status).toBe(200);
  letGo(service(), app);
  expect((await ended(service(), app, held)).status).toBe("success");
  expect((await service().call(app, { n: 4 })).status).toBe(200);
  for (const id of waiting)
    expect(await recordOf(service(), app, id)).toMatchObject({ status: "queued", startedAt: null });
  expect(await queue(app)).toMatchObject({ state: "paused", waiting: 2, running: 0, limits: null });
  // Again changes nothing.
  const { changedAt } = await queue(app);
  expect((await queue(app, "pause")).changedAt).toBe(changedAt);
  expect((await queue(app, "resume")).state).toBe("open");
  for (const id of waiting) expect((await ended(service(), app, id)).status).toBe("success");
  // The last two run at once.
  const begun = ledger(service(), app);
  expect([...begun.slice(0, 3), ...begun.slice(3).toSorted()]).toEqual(["0", "3", "4", "1", "2"]);
});

verifies("queue.pause-claimed", "a run that was next for a slot waits too", async () => {
  const app = await own();
  const held = await hold(app);
  const next = await submit(service(), app, { n: 1 });
  await queue(app, "pause");
  letGo(service(), app);
  expect((await ended(service(), app, held)).status).toBe("success");
  expect((await service().call(app, { n: 2 })).status).toBe(200);
  expect(await recordOf(service(), app, next)).toMatchObject({
    status: "queued",
    startedAt: null,
    attempt: 1,
  });
  expect((await queue(app)).waiting).toBe(1);
  await queue(app, "resume");
  expect((await ended(service(), app, next)).status).toBe("success");
});

verifies("queue.drain", "a queue that is drained takes no runs, and those that wait begin", async () => {
  const app = await own();
  await hold(app);
  const waiting = await submit(service(), app, { n: 1 });
  const keyed = { ...ASYNC, headers: { "idempotency-key": "accepted before" } };
  const before = await service().call(app, { n: 0 }, keyed);
  expect((await queue(app, "drain")).state).toBe("draining");
  const repeated = await service().call(app, { n: 0 }, keyed);
  expect([repeated.status, repeated.json.run_id]).toEqual([202, before.json.run_id]);
  for (const headers of [{}, { "idempotency-key": "k" }]) {
    const refused = await service().call(app, { n: 2 }, { ...ASYNC, headers });
    expect([refused.status, refused.json.code]).toEqual([503, "queue_draining"]);
    expect(refused.headers.get("retry-after")).toBe("60");
  }
  letGo(service(), app);
  expect((await ended(service(), app, waiting)).status).toBe("success");
  expect((await service().call(app, { n: 3 })).status).toBe(200);
  // It stays so until it is resumed.
  expect((await service().call(app, {}, ASYNC)).status).toBe(503);
  await queue(app, "resume");
  expect((await ended(service(), app, await submit(service(), app, { n: 4 }))).status).toBe("success");
});

test("a queue that is drained or resumed is not paused any more", async () => {
  const app = await own();
  await queue(app, "pause");
  const waiting = await submit(service(), app, { n: 1 });
  await queue(app, "drain");
  expect((await ended(service(), app, waiting)).status).toBe("success");
});

verifies(
  "queue.get",
  "a queue shows how many wait by priority, since when, and what limits them",
  async () => {
    const app = await own(`${ONE}${LIMITS}`);
    expect(await queue(app)).toEqual({
      state: "open",
      changedAt: null,
      waiting: 0,
      byPriority: { high: 0, normal: 0, low: 0 },
      hasMore: false,
      oldestAt: null,
      running: 0,
      parked: 0,
      limits: {
        concurrencyLimit: null,
        concurrencyKeyLimit: null,
        rateLimit: { count: 100_000, periodSeconds: 60 },
        concurrencyKeyRateLimit: null,
        maxBacklog: 1_000,
      },
    });
    await queue(app, "pause");
    const first = await submit(service(), app, { n: 1 });
    for (const query of [
      "priority=high",
      "priority=5",
      "priority=-1",
      "tag=x",
      "delay=1h",
      "delay=0&priority=low",
    ]) {
      const { status } = await service().call(app, {}, { suffix: `?async=true&${query}` });
      expect(status).toBe(202);
    }
    const shown = await queue(app);
    expect(shown).toMatchObject({ waiting: 6, byPriority: { high: 2, normal: 2, low: 2 } });
    expect(shown.oldestAt).toBe((await recordOf(service(), app, first)).createdAt);
  },
);

verifies("queue.audit", "who changed a queue is in the audit log", async () => {
  const app = await own();
  for (const verb of ["pause", "pause", "drain", "resume"] as const) await queue(app, verb);
  const { json } = await site.call("listAudit");
  const ofApp = json.items.filter(({ target }: { target: string }) => target === `${site.projectId}-${app}`);
  const changes = ofApp.filter(({ action }: { action: string }) => action.startsWith("queue."));
  expect(changes.map(({ action, before, after }: never) => [action, before, after])).toEqual([
    ["queue.resume", { state: "draining" }, { state: "open" }],
    ["queue.drain", { state: "paused" }, { state: "draining" }],
    ["queue.pause", { state: "open" }, { state: "paused" }],
  ]);
});

verifies("queue.cli", "the command line shows, pauses, resumes and drains a queue", async () => {
  const app = await own();
  const client = new Client(service());
  expect(await client.ok("queue", "pause", app)).toBe(
    `The queue of ${app} is paused: its async runs wait, and sync calls are served. Waiting: 0, running: 0.\n`,
  );
  await submit(service(), app, { n: 1 });
  const shown = await client.ok("queue", "show", app);
  expect(shown).toMatch(/state +paused {2}since /);
  expect(shown).toMatch(/waiting +1\n/);
  expect(await client.json("queue", "drain", app)).toMatchObject({ state: "draining" });
  expect(await client.ok("queue", "resume", app)).toContain("is open");
});

verifies("queue.pause-durable", "a paused queue stays paused through a restart and a deploy", async () => {
  const durable = new Site({ app: { main: MAIN, toml: ONE } });
  const before = await durable.start();
  const { store } = before.service;
  const appNumber = before.apps.get("app")!.app.number;
  const change = async (on: TestService, verb: string) => {
    const { projectId } = on.service.owner;
    await asOwner(on)("POST", `/v2/projects/${projectId}/apps/${projectId}-app/queue/${verb}`);
  };
  await change(before, "pause");
  const id = await submit(before, "app", { n: 1 });
  expect(await store.queueStates.find(appNumber)).toMatchObject({ state: "paused" });
  await before.service.stop();
  const after = await durable.start();
  await after.deploy("app", { main: `${MAIN}\n# Another version.\n`, toml: ONE });
  expect((await after.call("app", { n: 2 })).status).toBe(200);
  expect(await recordOf(after, "app", id)).toMatchObject({ status: "queued", startedAt: null });
  await change(after, "resume");
  expect((await ended(after, "app", id)).status).toBe("success");
});
