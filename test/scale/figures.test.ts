import { describe, expect, test } from "vitest";
import { openStore, type Store } from "../../src/store/store.ts";
import { packEnded } from "../../src/store/runs/ended-runs.ts";
import { DATABASE_KINDS, testDatabases } from "../support/databases.ts";
import { inPostgres } from "../support/killable-service.ts";
import { idAt, sampleEnd, sampleRun } from "../support/sample-run.ts";

const APPS = 1_000;
const RUNS = 100_000;
/** Older ones, which nobody asks for. */
const OLD_RUNS = 200_000;
const BATCH = 5_000;
const MAX_MS = 300;
const TRIES = 5;
const DAY_MS = 86_400_000;
const NOW = Date.now();

const databases = testDatabases();

/** Half of the runs are the first app's, the rest is spread over all. */
async function fill(store: Store): Promise<void> {
  await store.projects.insert({ id: "p-scale", name: "scale", createdAt: 0 });
  const names = Array.from({ length: APPS }, (_, i) => `app-${i}`);
  await Promise.all(
    names.map((name) => store.apps.insertOrFind({ projectId: "p-scale", name, createdAt: 0 })),
  );
  for (let n = 0; n < RUNS + OLD_RUNS; n += BATCH) {
    const batch = Array.from({ length: BATCH }, (_, i) => {
      const k = n + i;
      const age = k < RUNS ? (k / RUNS) * DAY_MS : DAY_MS + ((k - RUNS) / OLD_RUNS) * 6 * DAY_MS;
      const createdAt = Math.floor(NOW - age);
      const failed = k % 50 === 0;
      return sampleEnd(
        sampleRun({
          id: idAt(createdAt),
          createdAt,
          appNumber: k % 2 === 0 ? 1 : 1 + ((k * 7_919) % APPS),
          responseMs: Math.exp(((k * 31) % 800) / 100),
          state: failed ? "failure" : "success",
          statusCode: failed ? 500 : 200,
        }),
      );
    });
    await store.runs.insertFinished([packEnded(batch)]);
  }
}

describe.each(DATABASE_KINDS)(`figures of ${RUNS} runs of ${APPS} apps on %s`, (kind) => {
  test(`each is there within ${MAX_MS} ms`, async () => {
    const database = await databases.fresh(kind);
    const store = await openStore(database);
    await fill(store);
    // What autovacuum does within a minute.
    await inPostgres(database, (client) => client.query("analyze"));
    const span = {
      projectId: "p-scale",
      appNumber: null,
      fromMs: NOW - DAY_MS,
      toMs: NOW + 1_200_000,
      stepMs: 1_200_000,
      maxRuns: 200_000,
    };
    const asked = {
      "of the project": () => store.runFigures.ofSpan(span),
      "of one app": () => store.runFigures.ofSpan({ ...span, appNumber: 1 }),
      "by app": () => store.runFigures.byApp({ ...span, stepMs: 3_600_000 }),
      "last failures": () => store.runFigures.lastFailures({ ...span, limit: 10 }),
      "longest wait": () => store.runFigures.oldestQueuedAt(span),
    };
    const slow: string[] = [];
    for (const [name, ask] of Object.entries(asked)) {
      let bestMs = Number.POSITIVE_INFINITY;
      for (let i = 0; i < TRIES; i++) {
        const began = performance.now();
        await ask();
        bestMs = Math.min(bestMs, performance.now() - began);
      }
      console.log(`${kind}: ${name} ${bestMs.toFixed(0)} ms`);
      if (bestMs > MAX_MS) slow.push(`${name} ${bestMs.toFixed(0)} ms`);
    }
    const { total, sinceMs } = await store.runFigures.ofSpan(span);
    expect(total.byState.success + total.byState.failure).toBeGreaterThanOrEqual(RUNS);
    expect(sinceMs).toBe(span.fromMs);
    expect(slow).toEqual([]);
    await store.close();
  });
});
