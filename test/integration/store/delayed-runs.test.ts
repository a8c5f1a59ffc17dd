import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Run, RunAttempt } from "../../../src/model/run.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { idAt, queuedRun, samplePayload } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const ALL = { limit: 100, maxBytes: 1_000_000 };
const NOW = Date.UTC(2026, 0, 2);
const FAILED: RunAttempt = {
  number: 1,
  startedAt: NOW - 5,
  endedAt: NOW,
  replicaId: "r-1",
  errorCode: "app_error",
  errorMessage: "ValueError: no",
  gpuMs: null,
  runMs: 1.5,
};

describe.each(DATABASE_KINDS)("delayed runs on %s", (kind) => {
  let store: Store;
  let lastApp = 1_000;
  beforeAll(async () => {
    store = await openStore(await databases.fresh(kind));
  });
  afterAll(async () => {
    await store.close();
  });

  /** Runs of an app of their own, which have failed once and wait until these times; null: none. */
  async function failed(dueAt: readonly (number | null)[], attempt = FAILED): Promise<Run[]> {
    const appNumber = ++lastApp;
    const runs = dueAt.map(() => queuedRun({ appNumber }));
    await store.runs.accept(runs.map((run) => ({ run, payload: samplePayload(), owner: null })));
    await claimed(appNumber);
    const released = {
      appNumber,
      owner: "one",
      fence: 1,
      isInterruption: false,
      attempt: 2,
      failed: attempt,
    };
    const delays = dueAt.map((at) => (at === null ? {} : { dueAt: at }));
    await store.claims.release(runs.map(({ id }, i) => ({ ...released, ...delays[i], id })));
    return runs;
  }

  const claimed = async (appNumber: number): Promise<string[]> =>
    (await store.claims.claim({ appNumber, owner: "one", ...ALL })).runs.map(({ run }) => run.id);

  verifies("retry.durable", "a run is claimed once it is due, and counts as queued before", async () => {
    const [now, soon, late] = (await failed([null, NOW + 10, NOW + 20])) as [Run, Run, Run];
    const { appNumber } = now;
    expect(await claimed(appNumber)).toEqual([now.id]);
    expect(await store.claims.backlog()).not.toContain(appNumber);
    const listed = await store.runs.list({ appNumber, state: "queued", limit: 10 });
    expect(listed.map(({ id, dueAt }) => [id, dueAt])).toEqual([
      [late.id, NOW + 20],
      [soon.id, NOW + 10],
    ]);
    expect(await store.claims.nextDueAt()).toBe(NOW + 10);
    expect(await store.claims.makeDue({ now: NOW + 9, limit: 10 })).toEqual([]);
    expect(await store.claims.makeDue({ now: NOW + 10, limit: 10 })).toEqual([appNumber]);
    expect(await store.claims.backlog()).toContain(appNumber);
    expect(await claimed(appNumber)).toEqual([soon.id]);
    expect(await store.claims.makeDue({ now: NOW + 20, limit: 10 })).toEqual([appNumber]);
    expect(await claimed(appNumber)).toEqual([late.id]);
    expect(await store.claims.nextDueAt()).toBeNull();
  });

  test("the earliest become due first, so many at a time, of whatever app", async () => {
    const [first, third] = (await failed([NOW + 1, NOW + 3])) as [Run, Run];
    const [second] = (await failed([NOW + 2])) as [Run];
    expect(new Set(await store.claims.makeDue({ now: NOW + 9, limit: 2 }))).toEqual(
      new Set([first.appNumber, second.appNumber]),
    );
    expect(await claimed(first.appNumber)).toEqual([first.id]);
    expect(await store.claims.makeDue({ now: NOW + 9, limit: 2 })).toEqual([third.appNumber]);
  });

  verifies(
    "retry.attempts",
    "a failed attempt is stored by its claimer alone, and goes with the run",
    async () => {
      const [run] = (await failed([null])) as [Run];
      const key = { appNumber: run.appNumber, id: run.id };
      expect(await store.claims.attempts(key)).toEqual([FAILED]);
      await claimed(run.appNumber);
      const again = {
        ...key,
        owner: "one",
        isInterruption: false,
        attempt: 3,
        failed: { ...FAILED, number: 2 },
      };
      await store.claims.release([
        { ...again, fence: 1 },
        { ...again, fence: 2, owner: "two" },
      ]);
      expect(await store.claims.attempts(key)).toEqual([FAILED]);
      await store.claims.release([{ ...again, fence: 2 }]);
      expect((await store.claims.attempts(key)).map(({ number }) => number)).toEqual([1, 2]);
      const ended: Run = { ...run, state: "cancelled", completedAt: NOW };
      expect(await store.claims.endQueued([{ run: ended, result: null }])).toEqual([0]);
      while ((await store.retention.removeRuns({ cutoff: Date.now() + 60_000, limit: 100 })) > 0);
      expect(await store.claims.attempts(key)).toEqual([]);
    },
  );

  test("an error with a NUL does not keep its run from the queue", async () => {
    const [run] = (await failed([null], { ...FAILED, errorMessage: "ValueError: \0" })) as [Run];
    expect(await claimed(run.appNumber)).toEqual([run.id]);
    expect(await store.claims.attempts(run)).toEqual([{ ...FAILED, errorMessage: "ValueError: \uFFFD" }]);
  });

  verifies("retry.cancel", "a delayed run ends at once, and is due no more", async () => {
    const [run] = (await failed([NOW + 5])) as [Run];
    const ended: Run = { ...run, state: "cancelled", completedAt: NOW };
    expect(await store.claims.endQueued([{ run: ended, result: null }])).toEqual([0]);
    expect(await store.runs.find(run)).toMatchObject({ state: "cancelled", dueAt: null });
    expect(await store.claims.makeDue({ now: NOW + 9, limit: 10 })).toEqual([]);
  });

  verifies(
    "retry.deleted",
    "an app with very many delayed runs is deleted at once: the oldest, which end last, keep it in the backlog",
    async () => {
      const createdAt = Date.now();
      await store.projects.insert({ id: `p-${kind}`, name: "test", createdAt });
      const key = { projectId: `p-${kind}`, name: "app", createdAt };
      const { number: appNumber } = await store.apps.insertOrFind(key);
      const runs = Array.from({ length: 120 }, () => queuedRun({ appNumber }));
      await store.runs.accept(runs.map((run) => ({ run, payload: samplePayload(), owner: null })));
      await store.claims.claim({ appNumber, owner: "one", limit: 120, maxBytes: 1_000_000 });
      const claim = { appNumber, owner: "one", fence: 1, isInterruption: false, attempt: 2, failed: FAILED };
      await store.claims.release(runs.map(({ id }) => ({ ...claim, id, dueAt: NOW })));
      expect(await store.claims.backlog()).not.toContain(appNumber);
      expect(await store.apps.markDeleted({ appNumber, now: NOW })).toBe(true);
      expect(await store.claims.backlog()).toContain(appNumber);
      const left = await store.runs.list({ appNumber, state: "queued", limit: 200 });
      expect(left.map(({ dueAt }) => dueAt)).toEqual([...Array(20).fill(NOW), ...Array(100).fill(null)]);
    },
  );

  test("a run that waited for longer than records are kept has one after its end", async () => {
    const appNumber = ++lastApp;
    const run = queuedRun({ appNumber, id: idAt(NOW - 60_000), createdAt: NOW - 60_000 });
    await store.runs.accept([{ run, payload: samplePayload(), owner: null }]);
    const ended: Run = { ...run, state: "cancelled", completedAt: NOW, updatedAt: NOW };
    expect(await store.claims.endQueued([{ run: ended, result: null }])).toEqual([0]);
    await store.retention.removeRuns({ cutoff: NOW, limit: 100 });
    expect(await store.runs.find(run)).not.toBeNull();
    await store.retention.removeRuns({ cutoff: NOW + 1, limit: 100 });
    expect(await store.runs.find(run)).toBeNull();
  });
});
