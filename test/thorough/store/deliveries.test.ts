import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { uuidv7 } from "../../support/ids.ts";
import type { DeliveryAttempt, NewDelivery } from "../../../src/model/delivery.ts";
import type { Run } from "../../../src/model/run.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { insertForwarded } from "../../support/forwarded-runs.ts";
import { signOfLife } from "../../support/leases.ts";
import { sampleDelivery, sampleRun } from "../../support/sample-run.ts";

const databases = testDatabases();
const NOW = Date.UTC(2026, 0, 2);
const ROUNDS = 10;

describe.each(DATABASE_KINDS)("deliveries on %s", (kind) => {
  let store: Store;
  let projects = 0;
  beforeAll(async () => {
    store = await openStore(await databases.fresh(kind));
  });
  afterAll(async () => {
    await store.close();
  });

  async function newProject() {
    const projectId = `p-${++projects}`;
    await store.projects.insert({ id: projectId, name: "test", createdAt: NOW });
    const app = await store.apps.insertOrFind({ projectId, name: "hello", createdAt: NOW });
    return { projectId, appNumber: app.number };
  }
  /** Stores a run with its delivery. */
  async function send(appNumber: number, fields: Partial<NewDelivery> = {}): Promise<Run> {
    const run = sampleRun({ appNumber, webhookEndpoint: "https://example.test", webhookState: "pending" });
    const delivery = sampleDelivery(run, { nextAt: NOW, createdAt: NOW, ...fields });
    await insertForwarded(store, [{ run, delivery }]);
    return run;
  }
  const due = async (owner = "one", now = NOW) => {
    if (owner !== "dead") await signOfLife(store, owner, 60_000);
    return await store.deliveries.claimDue({ owner, now, limit: 100 });
  };
  const attempt = (fields: Partial<DeliveryAttempt> = {}): DeliveryAttempt => ({
    number: 1,
    startedAt: NOW + 1,
    durationMs: 12.5,
    requestHeaders: { "webhook-id": "x", "content-type": 'a "quoted" one' },
    status: 200,
    error: null,
    nextAt: null,
    ...fields,
  });
  const webhookState = async (run: Run) => (await store.runs.find(run))?.webhookState;

  /** Leaves nothing due for the next test. */
  async function endAll(): Promise<void> {
    for (const { id, attempts } of await due("cleaner", NOW + 1_000_000)) {
      const last = attempt({ number: attempts + 1 });
      await store.deliveries.recordAttempt({
        id,
        owner: "cleaner",
        attempt: last,
        state: "failed",
        now: NOW,
      });
    }
  }

  test("what is due is claimed longest due first, whole, with its project, and once", async () => {
    const { projectId, appNumber } = await newProject();
    const later = await send(appNumber, { nextAt: NOW, sealedSecret: Buffer.from("sealed") });
    const sooner = await send(appNumber, { nextAt: NOW - 5, contentType: null, body: Buffer.alloc(0) });
    await send(appNumber, { nextAt: NOW + 1 });
    const claimed = await due();
    expect(claimed.map(({ id }) => id)).toEqual([sooner.id, later.id]);
    const { body, sealedSecret, ...rest } = claimed[1]!;
    expect(rest).toEqual({
      id: later.id,
      appNumber,
      projectId,
      url: "https://example.test/hook",
      contentType: "application/json",
      runStatus: 200,
      state: "pending",
      attempts: 0,
      trace: null,
      nextAt: NOW,
      createdAt: NOW,
      updatedAt: NOW,
    });
    expect([Buffer.from(body!).toString(), Buffer.from(sealedSecret!).toString()]).toEqual([
      '{"result":1}',
      "sealed",
    ]);
    expect(claimed[0]).toMatchObject({ contentType: null });
    expect(claimed[0]!.body).toHaveLength(0);
    expect(await due()).toEqual([]);
    expect(await due("two")).toEqual([]);
    expect(await store.deliveries.nextDueAt()).toBe(NOW + 1);
    await store.claims.recover({ owner: "new", isAlone: true });
    await endAll();
    expect(await store.deliveries.nextDueAt()).toBeNull();
  });

  test("many claimers at once share them out", async () => {
    const { appNumber } = await newProject();
    // Each time of new owners: a lease that the others have not seen yet counts too.
    for (let round = 0; round < ROUNDS; round++) {
      await Promise.all(Array.from({ length: 20 }, () => send(appNumber)));
      const shares = await Promise.all(Array.from({ length: 8 }, (_, i) => due(`owner ${round}.${i}`)));
      const ids = shares.flat().map(({ id }) => id);
      expect(ids).toHaveLength(20);
      expect(new Set(ids).size).toBe(20);
      await store.claims.recover({ owner: "new", isAlone: true });
      await endAll();
    }
  });

  test("an attempt is put on record, and the delivery is due again or has ended", async () => {
    const { projectId, appNumber } = await newProject();
    const run = await send(appNumber, { sealedSecret: Buffer.from("sealed") });
    const { id } = run;
    await due();
    const failed = attempt({ status: null, error: "ECONNREFUSED", nextAt: NOW + 30 });
    const record = { id, owner: "one", attempt: failed, state: "pending" as const, now: NOW + 2 };
    expect(await store.deliveries.recordAttempt({ ...record, owner: "two" })).toBe(false);
    expect(await store.deliveries.recordAttempt(record)).toBe(true);
    // It has let go of the delivery.
    expect(await store.deliveries.recordAttempt(record)).toBe(false);
    expect(await store.deliveries.find({ projectId, id })).toMatchObject({
      state: "pending",
      attempts: 1,
      nextAt: NOW + 30,
      updatedAt: NOW + 2,
      sealedSecret: expect.anything(),
    });
    expect(await webhookState(run)).toBe("pending");

    expect(await due("one", NOW + 29)).toEqual([]);
    expect((await due("two", NOW + 30)).map((claimed) => claimed.attempts)).toEqual([1]);
    const second = attempt({ number: 2 });
    const end = { id, owner: "two", attempt: second, state: "delivered" as const, now: NOW + 31 };
    expect(await store.deliveries.recordAttempt(end)).toBe(true);
    // The caller's secret is kept until the delivery ends, the body a little longer.
    expect(await store.deliveries.find({ projectId, id })).toMatchObject({
      state: "delivered",
      attempts: 2,
      nextAt: null,
      sealedSecret: null,
      body: expect.anything(),
    });
    expect(await webhookState(run)).toBe("delivered");
    expect(await store.deliveries.attempts(id)).toEqual([failed, second]);
    expect(await due("one", NOW + 1_000)).toEqual([]);
  });

  test("a delivery whose owner is dead is anyone's, and a living one's is not", async () => {
    const { appNumber } = await newProject();
    await send(appNumber);
    await store.deliveries.claimDue({ owner: "dead", now: NOW, limit: 1 });
    // Its own claims are no news to it, whatever became of its lease.
    expect(await due("dead")).toEqual([]);
    await signOfLife(store, "dead", -1);
    expect(await due("one")).toHaveLength(1);
    expect(await due("two")).toEqual([]);
    await store.claims.recover({ owner: "two", isAlone: false });
    expect(await due("two")).toEqual([]);
    await signOfLife(store, "one", -1);
    await store.claims.recover({ owner: "two", isAlone: false });
    expect(await store.deliveries.nextDueAt()).toBe(NOW);
    await endAll();
  });

  test("deliveries are listed newest first, page by page, by project and by state, without bodies", async () => {
    const { projectId, appNumber } = await newProject();
    const second = await store.apps.insertOrFind({ projectId, name: "second", createdAt: NOW });
    const runs: Run[] = [];
    for (let i = 0; i < 6; i++) runs.push(await send(i % 2 === 0 ? appNumber : second.number));
    const foreign = await send((await newProject()).appNumber);
    const newestFirst = runs.map(({ id }) => id).toReversed();
    const page = await store.deliveries.list({ projectId, limit: 4 });
    expect(page.map(({ id }) => id)).toEqual(newestFirst.slice(0, 4));
    expect(page[0]).toMatchObject({ body: null, sealedSecret: null, state: "pending" });
    const rest = await store.deliveries.list({ projectId, limit: 4, before: page[3]!.id });
    expect(rest.map(({ id }) => id)).toEqual(newestFirst.slice(4));
    await due();
    const end = { owner: "one", attempt: attempt(), now: NOW };
    await store.deliveries.recordAttempt({ ...end, id: runs[2]!.id, state: "failed" });
    const failed = await store.deliveries.list({ projectId, limit: 9, state: "failed" });
    expect(failed.map(({ id }) => id)).toEqual([runs[2]!.id]);
    expect(await store.deliveries.list({ projectId, limit: 9, state: "pending" })).toHaveLength(5);
    expect(await store.deliveries.find({ projectId, id: foreign.id })).toBeNull();
    expect(await store.deliveries.find({ projectId, id: uuidv7(1) })).toBeNull();
    await store.claims.recover({ owner: "new", isAlone: true });
    await endAll();
  });

  test("ended deliveries are sent again, one or a range, and their attempts count on", async () => {
    const { projectId, appNumber } = await newProject();
    const runs: Run[] = [];
    for (let i = 0; i < 4; i++) runs.push(await send(appNumber, { createdAt: NOW + i }));
    await due();
    const end = { owner: "one", attempt: attempt(), now: NOW, state: "failed" as const };
    // The last one is still under way.
    for (const { id } of runs.slice(0, 3)) await store.deliveries.recordAttempt({ ...end, id });
    const again = (input: { ids?: string[]; from?: number; to?: number }, project = projectId) =>
      store.deliveries.redeliver({ projectId: project, now: NOW + 9, ...input });
    const ids = runs.map(({ id }) => id);
    expect(await again({ ids }, "p-other")).toBe(0);
    expect(await again({ ids: [ids[0]!, ids[3]!, uuidv7(1)] })).toBe(1);
    expect(await webhookState(runs[0]!)).toBe("pending");
    const span = { projectId, from: NOW, to: NOW + 2 };
    expect(await store.deliveries.countRedeliverable(span)).toBe(1);
    expect(await again({ from: NOW, to: NOW + 2 })).toBe(1);
    expect(await store.deliveries.countRedeliverable(span)).toBe(0);
    expect(await webhookState(runs[2]!)).toBe("failed");
    const claimed = await due("one", NOW + 9);
    expect(claimed.map(({ id, attempts }) => `${id} ${attempts}`).toSorted()).toEqual([
      `${ids[0]} 1`,
      `${ids[1]} 1`,
    ]);
    await store.claims.recover({ owner: "new", isAlone: true });
    await endAll();
  });

  test("a project's webhook secrets are listed newest first, and each is retired once", async () => {
    const { projectId } = await newProject();
    const secret = (id: string, createdAt: number) => ({
      id: `${projectId}-${id}`,
      projectId,
      sealedSecret: Buffer.from([0, 255]),
      createdAt,
    });
    await store.webhookSecrets.insert(secret("old", NOW));
    await store.webhookSecrets.insert(secret("new", NOW + 1));
    const old = { id: `${projectId}-old`, now: NOW + 2 };
    expect(await store.webhookSecrets.retire({ ...old, projectId: "p-other" })).toBe(false);
    expect(await store.webhookSecrets.retire({ ...old, projectId })).toBe(true);
    expect(await store.webhookSecrets.retire({ ...old, projectId })).toBe(false);
    const listed = await store.webhookSecrets.list(projectId);
    expect(listed.map(({ id, retiredAt }) => [id, retiredAt])).toEqual([
      [`${projectId}-new`, null],
      [`${projectId}-old`, NOW + 2],
    ]);
    expect(Buffer.from(listed[0]!.sealedSecret)).toEqual(Buffer.from([0, 255]));
    expect(await store.webhookSecrets.list("p-none")).toEqual([]);
  });
});
