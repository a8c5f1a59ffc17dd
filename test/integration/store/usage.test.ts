import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Run } from "../../../src/model/run.ts";
import type { Terms } from "../../../src/model/terms.ts";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import type { UsageGroup } from "../../../src/model/usage.ts";
import type { UsageQuery } from "../../../src/store/usage/daily-usage.ts";
import { DAY_MS, dayOf, MAX_TAGS_PER_DAY, OTHER_TAGS } from "../../../src/store/usage/roll-up.ts";
import { DATABASE_KINDS, type TestDatabase, testDatabases } from "../../support/databases.ts";
import { openOneThreadStore } from "../../support/one-thread-store.ts";
import { queuedRun, sampleEnd, samplePayload, sampleRun } from "../../support/sample-run.ts";
import { expectUsageOfRuns } from "../../support/usage-of-runs.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
/** Just before midnight, so that the runs of a test end on two days. */
const NOON = Date.UTC(2026, 0, 2, 12);
const MIDNIGHT = Date.UTC(2026, 0, 3);
const PROJECT = "p-usage";

const tagged = (...tags: string[]): Terms => ({
  priority: 0,
  maxAttempts: null,
  tags,
  concurrencyKey: null,
  fairnessKey: null,
  notBefore: null,
  startBy: null,
  endBy: null,
});

const NO_CONTENT = { result: null, part: null, delivery: null };

describe.each(DATABASE_KINDS)("usage on %s", (kind) => {
  let database: TestDatabase;
  let store: Store;
  let lastApp = 0;
  beforeAll(async () => {
    database = await databases.fresh(kind);
    store = await openOneThreadStore(database);
    await store.projects.insert({ id: PROJECT, name: "test", createdAt: NOON });
  });
  afterAll(async () => {
    await store.close();
  });

  const newApp = async (): Promise<{ number: number; name: string }> =>
    await store.apps.insertOrFind({ projectId: PROJECT, name: `app-${++lastApp}`, createdAt: NOON });
  const read = async (app: string, groups: readonly UsageGroup[], query: Partial<UsageQuery> = {}) =>
    await store.dailyUsage.ofCalls({
      projectId: PROJECT,
      fromDay: dayOf(NOON) - 1,
      toDay: dayOf(NOON) + 10,
      groups,
      apps: [app],
      accountId: null,
      tag: null,
      limit: 1_000,
      ...query,
    });

  const expectEqual = async ({ number, name }: { number: number; name: string }): Promise<void> =>
    await expectUsageOfRuns(store, { projectId: PROJECT, appNumber: number, appName: name });

  const ended = (appNumber: number, i: number, fields: Partial<Run> = {}): Run => {
    const completedAt = MIDNIGHT - 500 + i * 10;
    return sampleRun({
      appNumber,
      accountId: i % 3 === 0 ? null : `sa-${i % 3}`,
      state: i % 5 === 0 ? "failure" : i % 7 === 0 ? "cancelled" : "success",
      createdAt: completedAt - 5,
      completedAt,
      updatedAt: completedAt,
      runMs: i * 1.2345,
      gpuMs: i % 2 === 0 ? i * 0.333 : null,
      requestBytes: i,
      responseBytes: 2 * i,
      inputTokens: i % 4 === 0 ? i : null,
      outputTokens: i % 4 === 0 ? 3 * i : null,
      ...fields,
    });
  };

  verifies("usage.sum", "what a day's calls used is the sum of its stored runs", async () => {
    const app = await newApp();
    const runs = Array.from({ length: 100 }, (_, i) => ended(app.number, i));
    await store.runs.insertFinished([
      packEnded(runs.slice(0, 60).map((run) => sampleEnd(run))),
      packEnded(runs.slice(60).map((run) => sampleEnd(run))),
    ]);
    await expectEqual(app);
    const total = await read(app.name, []);
    expect(total).toMatchObject([{ day: null, app: null, accountId: null, tag: null }]);
    expect(total[0]!.succeeded + total[0]!.failed + total[0]!.cancelled).toBe(100);
  });

  verifies("usage.once", "a run whose end is stored again is not counted again", async () => {
    const app = await newApp();
    const runs = Array.from({ length: 50 }, (_, i) => ended(app.number, i));
    const first = packEnded(runs.slice(0, 30).map((run) => sampleEnd(run)));
    await store.runs.insertFinished([first]);
    // As after an answer that was lost: the same ones, with others.
    await store.runs.insertFinished([first, packEnded(runs.slice(20).map((run) => sampleEnd(run)))]);
    await expectEqual(app);
    await store.runs.insertFinished([first]);
    await expectEqual(app);
  });

  verifies(
    "usage.async",
    "async runs, their attempts and those that end in the queue are counted",
    async () => {
      const app = await newApp();
      const accept = async (fields: Partial<Run> = {}): Promise<Run> => {
        const run = queuedRun({ appNumber: app.number, accountId: "sa-async", ...fields });
        await store.runs.accept([{ run, payload: samplePayload(), owner: null }]);
        return run;
      };
      const claim = async () => {
        const claimed = await store.claims.claim({
          appNumber: app.number,
          owner: "one",
          limit: 10,
          maxBytes: 1e6,
        });
        return claimed.runs[0]!;
      };
      const run = await accept({ terms: tagged("a", "b") });
      const first = await claim();
      const failed = {
        number: 1,
        startedAt: MIDNIGHT - 100,
        endedAt: MIDNIGHT - 1,
        replicaId: "r-1",
        errorCode: "app_error",
        errorMessage: "no",
        runMs: 12.3456,
        gpuMs: 1,
      };
      const key = { appNumber: app.number, id: run.id, owner: "one", fence: first.fence };
      const released = { ...key, isInterruption: false, attempt: 2, failed };
      const payers = { accountId: "sa-async", tags: ["a", "b"] };
      await store.claims.release([{ ...released, ...payers }]);
      // Too late: the run is not held any more.
      await store.claims.release([{ ...released, ...payers }]);
      await expectEqual(app);
      const second = await claim();
      const finished = {
        run: { ...second.run, ...ended(app.number, 8), id: run.id, accountId: "sa-async", isAsync: true },
        owner: "one",
        fence: second.fence,
        result: null,
        part: null,
        delivery: null,
      };
      finished.run = { ...finished.run, attempt: 2, terms: tagged("a", "b") };
      expect(await store.claims.finish([finished])).toEqual([run.id]);
      expect(await store.claims.finish([finished])).toEqual([]);
      const dropped = await accept({ accountId: null });
      const cancelled = {
        ...dropped,
        state: "cancelled" as const,
        completedAt: MIDNIGHT,
        updatedAt: MIDNIGHT,
      };
      const end = { run: cancelled, result: null };
      expect(await store.claims.endQueued([end])).toEqual([0]);
      expect(await store.claims.endQueued([end])).toEqual([]);
      await expectEqual(app);
      const byTag = await read(app.name, ["tag"]);
      expect(byTag).toMatchObject([
        { tag: "a", succeeded: 1, retried: 1, accountId: null },
        { tag: "b", succeeded: 1, retried: 1 },
      ]);
      expect(byTag[0]!.runMs).toBeCloseTo(12.346 + 9.876, 6);
      expect(await read(app.name, ["day"], { tag: "b" })).toMatchObject([
        { day: dayOf(MIDNIGHT - 1), retried: 1 },
      ]);
    },
  );

  verifies("usage.nodes", "what several nodes write at once of the same days is all counted", async () => {
    // On Postgres each on connections of its own; SQLite has one writer.
    const others = kind === "postgres" ? [await openStore(database), await openStore(database)] : [];
    const nodes = [store, ...others];
    const app = await newApp();
    await Promise.all(
      nodes.map(async (node, at) => {
        const owner = `node ${at}`;
        const runs = Array.from({ length: 90 }, (_, i) => ended(app.number, i));
        const light = Array.from({ length: 90 }, (_, i) => ended(app.number, 90 - i));
        for (let i = 0; i < 90; i += 30) {
          const some = runs.slice(i, i + 30);
          const begun = some.map((run) => ({
            ...run,
            state: "running" as const,
            completedAt: null,
            isAsync: true,
          }));
          await node.runs.accept(begun.map((run) => ({ run, payload: samplePayload(), owner })));
          const ends = some.map((run) => ({ ...NO_CONTENT, run, owner, fence: 1 }));
          const batch = packEnded(light.slice(i, i + 30).map((run) => sampleEnd(run)));
          await Promise.all([
            node.claims.finish(ends.slice(0, 15)),
            node.runs.insertFinished([batch]),
            node.claims.finish(ends.slice(15)),
          ]);
        }
      }),
    );
    await expectEqual(app);
    const [total] = await read(app.name, []);
    expect(total!.succeeded + total!.failed + total!.cancelled).toBe(180 * nodes.length);
    for (const other of others) await other.close();
  });

  test("a run that could not be accepted is counted as it is recorded", async () => {
    const app = await newApp();
    const run = queuedRun({ appNumber: app.number, createdAt: NOON, terms: tagged("never") });
    const accepted = { run, payload: samplePayload(), owner: null };
    expect(await store.runs.refuse([accepted])).toEqual([run.id]);
    expect(await store.runs.refuse([accepted])).toEqual([run.id]);
    await expectEqual(app);
  });

  verifies(
    "usage.tags",
    "an app has a bounded number of tags a day; the others are counted together",
    async () => {
      const app = await newApp();
      const tags = Array.from(
        { length: MAX_TAGS_PER_DAY + 10 },
        (_, i) => `tag-${String(i).padStart(4, "0")}`,
      );
      const finish = async (of: readonly string[]): Promise<void> => {
        const runs = of.map((tag) =>
          queuedRun({ appNumber: app.number, accountId: null, terms: tagged(tag), state: "running" }),
        );
        await store.runs.accept(runs.map((run) => ({ run, payload: samplePayload(), owner: "one" })));
        const success = { state: "success", completedAt: NOON, updatedAt: NOON } as const;
        await store.claims.finish(
          runs.map((run) => ({
            run: { ...run, ...success },
            owner: "one",
            fence: 1,
            result: null,
            part: null,
            delivery: null,
          })),
        );
      };
      await finish(tags.slice(0, MAX_TAGS_PER_DAY - 5));
      await finish(tags.slice(MAX_TAGS_PER_DAY - 10));
      const found = await read(app.name, ["tag"], { limit: 5_000 });
      expect(found).toHaveLength(MAX_TAGS_PER_DAY + 1);
      expect(found.find(({ tag }) => tag === OTHER_TAGS)?.succeeded).toBe(10);
      expect(found.reduce((sum, { succeeded }) => sum + succeeded, 0)).toBe(MAX_TAGS_PER_DAY + 15);
    },
  );

  test("GPU time of a day, of a project and of one account", async () => {
    const { id: projectId } = { id: "p-gpus" };
    await store.projects.insert({ id: projectId, name: "gpus", createdAt: NOON });
    const { number: appNumber } = await store.apps.insertOrFind({ projectId, name: "a", createdAt: NOON });
    const run = (accountId: string, gpuMs: number, at: number) =>
      sampleEnd(sampleRun({ appNumber, accountId, gpuMs, completedAt: at, updatedAt: at }));
    await store.runs.insertFinished([
      packEnded([run("sa-1", 100, NOON), run("sa-2", 50.5, NOON), run("sa-1", 7, NOON + DAY_MS)]),
    ]);
    const day = dayOf(NOON);
    expect(await store.dailyUsage.gpuMs({ projectId, accountId: null, day })).toBe(150.5);
    expect(await store.dailyUsage.gpuMs({ projectId, accountId: "sa-1", day })).toBe(100);
    expect(await store.dailyUsage.gpuMs({ projectId, accountId: "sa-3", day })).toBe(0);
  });

  test("what replicas used is added to their app's day", async () => {
    const app = await newApp();
    const use = { appNumber: app.number, day: dayOf(NOON), replicaMs: 10, cpuMs: 2.5, gpuMs: 1, gbMs: 0.5 };
    await store.replicaUsage.add([use, { ...use, day: use.day + 1 }]);
    await store.replicaUsage.add([use]);
    const query = {
      projectId: PROJECT,
      fromDay: use.day,
      toDay: use.day + 2,
      groups: ["day", "app"] as const,
      apps: [app.name],
      accountId: null,
      tag: null,
      limit: 10,
    };
    expect(await store.dailyUsage.ofReplicas(query)).toEqual([
      { day: use.day, app: app.name, replicaMs: 20, cpuMs: 5, gpuMs: 2, gbMs: 1 },
      { day: use.day + 1, app: app.name, replicaMs: 10, cpuMs: 2.5, gpuMs: 1, gbMs: 0.5 },
    ]);
  });

  verifies("usage.kept", "usage is kept for 400 days", async () => {
    const app = await newApp();
    const at = (days: number): Run => {
      const completedAt = NOON - days * DAY_MS;
      return sampleRun({ appNumber: app.number, completedAt, updatedAt: completedAt });
    };
    await store.runs.insertFinished([packEnded([400, 401, 500].map((days) => sampleEnd(at(days))))]);
    const old = { appNumber: app.number, day: dayOf(NOON) - 401, replicaMs: 1, cpuMs: 1, gpuMs: 1, gbMs: 1 };
    await store.replicaUsage.add([old]);
    expect(await store.dailyUsage.expire({ now: NOON, limit: 2 })).toBe(2);
    expect(await store.dailyUsage.expire({ now: NOON, limit: 10 })).toBe(1);
    const left = await read(app.name, ["day"], { fromDay: 0 });
    expect(left).toMatchObject([{ day: dayOf(NOON) - 400, succeeded: 1 }]);
  });

  test("nodes learn what the others have counted", async () => {
    const count = (subject: string, calls: number) => ({ subject, calls, running: 1 });
    expect(
      await store.quotaCounts.exchange({ node: "one", counts: [count("sa-q", 5), count("p-q", 7)] }),
    ).toEqual([]);
    expect(await store.quotaCounts.exchange({ node: "two", counts: [count("sa-q", 2)] })).toEqual([
      { subject: "sa-q", calls: 5, running: expect.any(Number) },
    ]);
    expect(await store.quotaCounts.exchange({ node: "three", counts: [count("sa-q", 1)] })).toEqual([
      { subject: "sa-q", calls: 7, running: expect.any(Number) },
    ]);
    expect(await store.quotaCounts.exchange({ node: "one", counts: [count("p-q", 8)] })).toEqual([]);
    await store.quotaCounts.prune();
  });
});
