import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Run } from "../../../src/model/run.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { idAt, queuedRun, sampleEnd, samplePayload, sampleRun } from "../../support/sample-run.ts";

const databases = testDatabases();
const MINUTE_MS = 60_000;
const FROM_MS = 1_700_000_040_000;
const SPAN = {
  projectId: "p-a",
  appNumber: null,
  fromMs: FROM_MS,
  toMs: FROM_MS + 5 * MINUTE_MS,
  stepMs: MINUTE_MS,
  maxRuns: 1_000,
};

const run = (appNumber: number, minute: number, fields: Partial<Run> = {}): Run => {
  const createdAt = FROM_MS + minute * MINUTE_MS;
  return sampleRun({
    id: idAt(createdAt),
    appNumber,
    createdAt,
    replicaStartedAt: createdAt - 1,
    responseMs: 100,
    ...fields,
  });
};
const FAILED = { state: "failure", statusCode: 500, errorCode: "app_error" } as const;

async function fill(store: Store): Promise<number[]> {
  for (const id of ["p-a", "p-b"]) await store.projects.insert({ id, name: id, createdAt: 0 });
  const made = async (projectId: string, name: string) =>
    (await store.apps.insertOrFind({ projectId, name, createdAt: 0 })).number;
  const [a, b, gone, other] = [
    await made("p-a", "a"),
    await made("p-a", "b"),
    await made("p-a", "gone"),
    await made("p-b", "a"),
  ];
  await store.apps.markDeleted({ appNumber: gone, now: 1 });
  const ended = [
    run(a, 0, { responseMs: 10 }),
    run(a, 0.5, { replicaStartedAt: FROM_MS + MINUTE_MS }),
    run(a, 2, { ...FAILED, responseMs: 1_000, errorMessage: "x".repeat(2_000) }),
    run(b, 2.9, { state: "cancelled", statusCode: null }),
    run(b, 3, { ...FAILED, errorMessage: "late" }),
    run(a, -1),
    run(a, 5),
    run(b, 1, { state: "failure", statusCode: 422, errorCode: "invalid_arguments", errorMessage: "theirs" }),
    run(b, 1, { state: "failure", statusCode: 404, errorMessage: "theirs" }),
    run(gone, 1, FAILED),
    run(other, 1, FAILED),
  ];
  await store.runs.insertFinished([packEnded(ended.map((record) => sampleEnd(record)))]);
  const createdAt = FROM_MS + 4 * MINUTE_MS;
  const queued = [createdAt, createdAt + 1].map((at) =>
    queuedRun({ id: idAt(at), appNumber: b, createdAt: at }),
  );
  await store.runs.accept(queued.map((record) => ({ run: record, payload: samplePayload(), owner: null })));
  return [a, b];
}

describe.each(DATABASE_KINDS)("figures of runs on %s", (kind) => {
  let store: Store;
  let [a, b] = [0, 0];
  beforeAll(async () => {
    store = await openStore(await databases.fresh(kind));
    [a = 0, b = 0] = await fill(store);
  });
  afterAll(async () => {
    await store.close();
  });

  test("runs of a span are counted by step, state and response time, for a project and for an app", async () => {
    const { steps, total, sinceMs } = await store.runFigures.ofSpan(SPAN);
    expect(total.byState).toEqual({ queued: 2, running: 0, success: 2, failure: 4, cancelled: 1 });
    expect([total.callerErrors, total.cold, sinceMs]).toEqual([2, 1, FROM_MS]);
    expect(steps.map(({ byState }) => Object.values(byState))).toEqual([
      [0, 0, 2, 0, 0],
      [0, 0, 0, 2, 0],
      [0, 0, 0, 1, 1],
      [0, 0, 0, 1, 0],
      [2, 0, 0, 0, 0],
    ]);
    expect(Math.abs((steps[0]?.p50Ms ?? 0) - 10)).toBeLessThan(0.25);
    expect(Math.abs((steps[0]?.p99Ms ?? 0) - 100)).toBeLessThan(2.5);
    expect(Math.abs((steps[2]?.p50Ms ?? 0) - 1_000)).toBeLessThan(25);
    expect([steps[1]?.callerErrors, steps[2]?.callerErrors, steps[4]?.p50Ms]).toEqual([2, 0, null]);

    const ofB = await store.runFigures.ofSpan({ ...SPAN, appNumber: b });
    expect(ofB.total.byState).toEqual({ queued: 2, running: 0, success: 0, failure: 3, cancelled: 1 });

    const traffic = (await store.runFigures.byApp(SPAN)).toSorted((x, y) => x.appNumber - y.appNumber);
    expect(traffic.map(({ appNumber, runs, failures }) => ({ appNumber, runs, failures }))).toEqual([
      { appNumber: a, runs: [2, 0, 1, 0, 0], failures: [0, 0, 1, 0, 0] },
      { appNumber: b, runs: [0, 2, 1, 1, 2], failures: [0, 0, 0, 1, 0] },
    ]);
    expect(
      traffic.map((ofApp) => [ofApp.total.callerErrors, Math.round(ofApp.total.p95Ms ?? 0) > 500]),
    ).toEqual([
      [0, true],
      [2, false],
    ]);
  });

  test("the newest failures and the longest wait of a project or an app are found", async () => {
    const failures = await store.runFigures.lastFailures({ ...SPAN, limit: 10 });
    expect(failures.map(({ appNumber, errorMessage }) => [appNumber, errorMessage])).toEqual([
      [b, "late"],
      [a, "x".repeat(500)],
    ]);
    expect(await store.runFigures.lastFailures({ ...SPAN, limit: 1 })).toEqual(failures.slice(0, 1));
    const ofA = await store.runFigures.lastFailures({ ...SPAN, appNumber: a, limit: 10 });
    expect(ofA).toEqual(failures.slice(1));
    expect(await store.runFigures.oldestQueuedAt(SPAN)).toBe(FROM_MS + 4 * MINUTE_MS);
    expect(await store.runFigures.oldestQueuedAt({ ...SPAN, appNumber: a })).toBeNull();
  });

  test("of more runs than may be looked at, the newest are counted", async () => {
    const { total, sinceMs } = await store.runFigures.ofSpan({ ...SPAN, maxRuns: 4 });
    expect(Object.values(total.byState).reduce((sum, count) => sum + count)).toBeLessThanOrEqual(4);
    expect(total.byState.queued).toBe(2);
    expect(sinceMs).toBeGreaterThan(FROM_MS);
  });
});
