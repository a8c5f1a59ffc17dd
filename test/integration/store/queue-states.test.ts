import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NO_WISHES } from "../../../src/gateway/wishes.ts";
import { termsOf, type Wishes } from "../../../src/model/terms.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { idAt, queuedRun, samplePayload } from "../../support/sample-run.ts";

const databases = testDatabases();
const NOW = Date.UTC(2026, 0, 2);

describe.each(DATABASE_KINDS)("queues on %s", (kind) => {
  let store: Store;
  const projectId = "p-one";
  beforeAll(async () => {
    store = await openStore(await databases.fresh(kind));
    await store.projects.insert({ id: projectId, name: "one", createdAt: 1 });
  });
  afterAll(async () => {
    await store.close();
  });
  const newApp = async (name: string) =>
    (await store.apps.insertOrFind({ projectId, name, createdAt: 1 })).number;

  test("a queue is open until it is changed, and a change counts once", async () => {
    const appNumber = await newApp("once");
    expect(await store.queueStates.find(appNumber)).toEqual({ state: "open", changedAt: null });
    const position = kind === "postgres" ? (await store.changes.since(null)).position : null;
    expect(await store.queueStates.change({ appNumber, state: "paused", now: 5 })).toBe(true);
    expect(await store.queueStates.change({ appNumber, state: "paused", now: 6 })).toBe(false);
    expect(await store.queueStates.find(appNumber)).toEqual({ state: "paused", changedAt: 5 });
    expect(await store.queueStates.closed(null)).toContainEqual([appNumber, "paused"]);
    if (position) {
      const { changes } = await store.changes.since(position);
      expect(changes.filter(({ topic }) => topic === "queue")).toEqual([
        { topic: "queue", subject: String(appNumber) },
      ]);
    }
    await store.queueStates.change({ appNumber, state: "open", now: 7 });
    expect(await store.queueStates.closed([appNumber])).toEqual([]);
  });

  test("a deleted app has no queue", async () => {
    const appNumber = await newApp("gone");
    await store.queueStates.change({ appNumber, state: "draining", now: 5 });
    expect(await store.queueStates.closed([appNumber])).toEqual([[appNumber, "draining"]]);
    await store.apps.markDeleted({ appNumber, now: 6 });
    expect(await store.queueStates.find(appNumber)).toBeNull();
    expect(await store.queueStates.closed([appNumber])).toEqual([]);
    expect(await store.queueStates.change({ appNumber, state: "open", now: 7 })).toBe(false);
  });

  test("waiting runs are counted by their head start, up to a number", async () => {
    const appNumber = await newApp("depth");
    const asked: (Partial<Wishes> | null)[] = [
      null,
      { priority: 600 },
      { priority: 0.5 },
      { priority: -600 },
      { tags: ['"priority":-1'] },
      // Its delay is over: it stands as far back as one of a low priority.
      { delay: { ms: 60_000 } },
      { delay: { ms: 60_000 }, priority: 30 },
    ];
    const runs = asked.map((wishes, i) => {
      const terms = wishes && termsOf({ ...NO_WISHES, ...wishes }, NOW);
      return queuedRun({ appNumber, id: idAt(NOW + i), createdAt: NOW + i, terms, dueAt: null });
    });
    const later = queuedRun({ appNumber, id: idAt(NOW - 1), createdAt: NOW - 1, dueAt: NOW + 60_000 });
    await store.runs.accept([...runs, later].map((run) => ({ run, payload: samplePayload(), owner: null })));
    const counted = { high: 3, normal: 3, low: 1, hasMore: false, oldestAt: NOW, running: 0, parked: 0 };
    expect(await store.queueDepth.of({ appNumber, most: 7 })).toEqual(counted);
    expect(await store.queueDepth.of({ appNumber, most: 6 })).toMatchObject({ hasMore: true });
    await store.claims.claim({ appNumber, owner: "one", limit: 2, maxBytes: 1_000_000 });
    const { high, normal, low, running } = await store.queueDepth.of({ appNumber, most: 100 });
    expect([high + normal + low, running]).toEqual([5, 2]);
  });
});
