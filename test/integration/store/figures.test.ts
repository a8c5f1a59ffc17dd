import { describe, expect, test } from "vitest";
import { openStore } from "../../../src/store/store.ts";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { insertForwarded } from "../../support/forwarded-runs.ts";
import { queuedRun, sampleDelivery, sampleEnd, samplePayload, sampleRun } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";
import { NO_WISHES } from "../../../src/model/wishes.ts";

const databases = testDatabases();

describe.each(DATABASE_KINDS)("figures on %s", (kind) => {
  test("queued runs are counted by app with the oldest's time; running and ended ones are not", async () => {
    const store = await openStore(await databases.fresh(kind));
    expect(await store.figures.queuedRuns()).toEqual([]);
    const queued = [1_000, 2_000, 3_000].map((createdAt) => queuedRun({ appNumber: 4, createdAt }));
    const running = queuedRun({ appNumber: 4, createdAt: 500, state: "running" });
    const other = queuedRun({ appNumber: 9, state: "running" });
    await store.runs.accept(queued.map((run) => ({ run, payload: samplePayload(), owner: null })));
    await store.runs.accept([running, other].map((run) => ({ run, payload: samplePayload(), owner: "one" })));
    await store.runs.insertFinished([packEnded([sampleEnd(sampleRun({ appNumber: 4 }))])]);
    expect(await store.figures.queuedRuns()).toEqual([
      { appNumber: 4, count: 3, high: 0, normal: 3, low: 0, oldestAt: 1_000 },
    ]);
    await store.close();
  });

  verifies("metrics.queues", "queued runs are counted by priority", async () => {
    const store = await openStore(await databases.fresh(kind));
    const none = { ...NO_WISHES, notBefore: null, startBy: null, endBy: null };
    const tags = ['"priority":-1', "100%"];
    const priorities = [600, 0.5, 0, -0, -600, -1, -2];
    const queued = priorities.map((priority) =>
      queuedRun({ appNumber: 4, createdAt: 1_000, terms: { ...none, priority, tags } }),
    );
    queued.push(queuedRun({ appNumber: 4, createdAt: 1_000 }));
    await store.runs.accept(queued.map((run) => ({ run, payload: samplePayload(), owner: null })));
    expect(await store.figures.queuedRuns()).toEqual([
      { appNumber: 4, count: 8, high: 2, normal: 3, low: 3, oldestAt: 1_000 },
    ]);
    await store.close();
  });

  test("pending deliveries are counted with the oldest's time", async () => {
    const store = await openStore(await databases.fresh(kind));
    expect(await store.figures.pendingDeliveries()).toEqual({ count: 0, oldestAt: null });
    const ends = [3_000, 1_000].map((createdAt) => {
      const run = sampleRun({ webhookState: "pending" });
      return { run, delivery: sampleDelivery(run, { createdAt }) };
    });
    await insertForwarded(store, ends);
    expect(await store.figures.pendingDeliveries()).toEqual({ count: 2, oldestAt: 1_000 });
    expect(store.commits.count).toBe(2);
    await store.close();
  });
});
