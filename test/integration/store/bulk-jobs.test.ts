import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readAppConfig } from "../../../src/config/app-config.ts";
import { createLog } from "../../../src/kit/log.ts";
import type { BulkFilter, BulkAction } from "../../../src/model/bulk-job.ts";
import { AppError } from "../../../src/model/errors.ts";
import { endRun, type RunKey } from "../../../src/model/run.ts";
import { BulkWorker } from "../../../src/runs/bulk/bulk-worker.ts";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { HandClock } from "../../support/clocks.ts";
import { uuidv7 } from "../../support/ids.ts";
import { idAt, queuedRun, sampleEnd, samplePayload, sampleRun } from "../../support/sample-run.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const NOW = Date.UTC(2026, 0, 2);
/** Three steps of a job. */
const RUNS = 250;

describe.each(DATABASE_KINDS)("bulk jobs on %s", (kind) => {
  let store: Store;
  let apps = 0;
  beforeAll(async () => {
    store = await openStore(await databases.fresh(kind));
    await store.projects.insert({ id: "p-bulk", name: "bulk", createdAt: 1 });
  });
  afterAll(async () => {
    await store.close();
  });

  /** An app with a version. */
  async function newApp(): Promise<number> {
    apps += 1;
    const { number } = await store.apps.insertOrFind({
      projectId: "p-bulk",
      name: `app-${apps}`,
      createdAt: 1,
    });
    const versionId = uuidv7(NOW);
    const { config } = readAppConfig({ host: { cpuCount: 2 } });
    const version = { id: versionId, appNumber: number, config, bundle: "bundles/b", createdAt: NOW };
    await store.versions.insert(version);
    await store.apps.setCurrentVersion({ appNumber: number, versionId, now: NOW });
    return number;
  }

  /** Failed async runs, each with its number as its argument. */
  async function failed(appNumber: number, count = RUNS): Promise<void> {
    const ends = Array.from({ length: count }, (_, n) => {
      const fields = { appNumber, id: idAt(NOW + n), createdAt: NOW + n, isAsync: true };
      const run = endRun(sampleRun({ ...fields, state: "running" }), FATE, NOW + n);
      return sampleEnd(run, { payload: samplePayload({ input: Buffer.from(`{"n":${n}}`) }) });
    });
    await store.runs.insertFinished([packEnded(ends)]);
  }

  async function begin(appNumber: number, action: BulkAction, filter: BulkFilter = {}): Promise<string> {
    const id = uuidv7(NOW + 1_000_000);
    await store.bulkJobs.insert({ appNumber, id, action, filter, total: null, now: NOW + 1_000_000 });
    return id;
  }

  function worker(
    owner: string,
    changes: Partial<Store["bulkJobs"]> = {},
    cancel: Cancel = noCancel,
    isDraining: (appNumber: number) => boolean = () => false,
  ) {
    const bulkJobs = { ...store.bulkJobs, ...changes };
    return new BulkWorker({
      store: { ...store, bulkJobs },
      clock: new HandClock(NOW + 2_000_000),
      log: createLog("silent"),
      owner,
      reserve: { refusal: null },
      isDraining,
      serves: () => true,
      wake: () => {},
      cancel,
    });
  }

  const isOver = (appNumber: number, id: string) => async (): Promise<boolean> =>
    (await store.bulkJobs.find({ appNumber, id }))?.state !== "running";

  verifies("bulk.survives", "a job goes on where a dead service left it, and repeats nothing", async () => {
    const appNumber = await newApp();
    await failed(appNumber);
    const id = await begin(appNumber, "retry");
    let steps = 0;
    const died = Promise.withResolvers<void>();
    const first = worker("first", {
      retry: async (step) => {
        if (steps++ === 0) return await store.bulkJobs.retry(step);
        // The second step is stored, and the service dies before it knows.
        await store.bulkJobs.retry(step);
        died.resolve();
        return await new Promise<boolean>(() => {});
      },
    });
    first.wake();
    await died.promise;
    const second = worker("second");
    second.wake();
    await until("the job is over", isOver(appNumber, id));
    expect(await store.bulkJobs.find({ appNumber, id })).toMatchObject({
      state: "done",
      done: RUNS,
      skipped: {},
    });
    const queued = await store.runs.list({ appNumber, state: "queued", limit: 1_000 });
    const inputs: string[] = [];
    for (const run of queued)
      inputs.push(Buffer.from((await store.payloads.find(run))?.input ?? []).toString());
    expect(inputs.toSorted()).toEqual(Array.from({ length: RUNS }, (_, n) => `{"n":${n}}`).toSorted());
    await second.stop();
  });

  verifies("bulk.survives", "a service that has lost a job does nothing more of it", async () => {
    const appNumber = await newApp();
    await failed(appNumber, 1);
    const id = await begin(appNumber, "retry");
    const claim = async (owner: string) =>
      (await store.bulkJobs.claim({ id, owner, isAlone: kind === "sqlite" }))!;
    const lost = await claim("first");
    const held = await claim("second");
    const [run] = await store.runs.list({ appNumber, limit: 1 });
    const runs = [{ id: run!.id, newId: uuidv7(NOW + 5_000_000) }];
    const step = { appNumber, stage: 1, cursor: null, now: NOW, runs };
    expect(await store.bulkJobs.retry({ ...lost, ...step })).toBe(false);
    expect(await store.runs.count({ appNumber })).toBe(1);
    expect(await store.bulkJobs.retry({ ...held, ...step })).toBe(true);
    expect(await store.runs.count({ appNumber })).toBe(2);
    await store.bulkJobs.end({ ...held, state: "done", error: null, now: NOW });
  });

  verifies("bulk.survives", "runs that a dead service has cancelled are counted once", async () => {
    const appNumber = await newApp();
    const runs = Array.from({ length: 5 }, (_, n) => queuedRun({ appNumber, id: idAt(NOW + n) }));
    await store.runs.accept(runs.map((run) => ({ run, payload: samplePayload(), owner: null })));
    const id = await begin(appNumber, "cancel");
    const cancelled: string[] = [];
    const cancel = async (key: RunKey): Promise<void> => {
      const run = (await store.runs.find(key))!;
      if (run.state === "cancelled") throw new AppError("run_finished");
      cancelled.push(key.id);
      await store.claims.endQueued([{ run: endRun(run, CANCELLED, NOW), result: null }]);
    };
    const died = Promise.withResolvers<void>();
    const first = worker(
      "first",
      {
        note: async (step) => {
          if (step.done === 0) return await store.bulkJobs.note(step);
          died.resolve();
          return await new Promise<boolean>(() => {});
        },
      },
      cancel,
    );
    first.wake();
    await died.promise;
    const second = worker("second", {}, cancel);
    second.wake();
    await until("the job is over", isOver(appNumber, id));
    expect(await store.bulkJobs.find({ appNumber, id })).toMatchObject({ done: 5, skipped: {} });
    expect(new Set(cancelled).size).toBe(cancelled.length);
    await second.stop();
  });

  verifies("bulk.survives", "jobs that cannot go on keep no other waiting", async () => {
    const drained = [await newApp(), await newApp(), await newApp()];
    for (const appNumber of drained) {
      await failed(appNumber, 1);
      for (let n = 0; n < 8; n++) await begin(appNumber, "retry");
    }
    const broken = await newApp();
    await store.runs.accept([
      { run: queuedRun({ appNumber: broken, id: idAt(NOW) }), payload: samplePayload(), owner: null },
    ]);
    await begin(broken, "cancel");
    const appNumber = await newApp();
    await failed(appNumber, 1);
    const id = await begin(appNumber, "delete");
    const cancel = async (): Promise<void> => {
      throw new Error("broken");
    };
    const only = worker("only", {}, cancel, (number) => drained.includes(number));
    only.wake();
    await until("the job is over", isOver(appNumber, id));
    await only.stop();
    expect(await store.runs.count({ appNumber })).toBe(0);
    for (const other of [...drained, broken]) {
      expect(await store.runs.count({ appNumber: other })).toBe(1);
      for (const job of await store.bulkJobs.list({ appNumber: other, limit: 50 }))
        await store.bulkJobs.cancel({ appNumber: other, id: job.id, now: NOW });
    }
  });

  verifies("bulk.retry", "a run of a schedule that runs again was not fired again", async () => {
    const appNumber = await newApp();
    const trace = {
      traceId: "1".repeat(32),
      parentId: null,
      spanId: "2".repeat(16),
      isSampled: true,
      state: null,
    };
    const fired = sampleRun({
      appNumber,
      id: idAt(NOW),
      isAsync: true,
      state: "running",
      trace: { ...trace, isFired: true },
    });
    const payload = samplePayload({ input: Buffer.from("{}") });
    await store.runs.insertFinished([packEnded([sampleEnd(endRun(fired, FATE, NOW), { payload })])]);
    const id = await begin(appNumber, "retry");
    const only = worker("only");
    only.wake();
    await until("the job is over", isOver(appNumber, id));
    await only.stop();
    const [again] = await store.runs.list({ appNumber, state: "queued", limit: 2 });
    expect((await store.runs.find(again!))?.trace).toEqual({ ...trace, isFired: false });
  });

  test("an app has a bounded number of jobs, and they go with it", async () => {
    const appNumber = await newApp();
    for (let n = 0; n < 10; n++) await begin(appNumber, "delete");
    const id = uuidv7(NOW);
    const more = { appNumber, id, action: "delete", filter: {}, total: 0, now: NOW } as const;
    expect(await store.bulkJobs.insert(more)).toBe(false);
    for (const job of await store.bulkJobs.list({ appNumber, limit: 50 }))
      expect(await store.bulkJobs.cancel({ appNumber, id: job.id, now: NOW })).toBe(true);
    expect(await store.bulkJobs.insert(more)).toBe(true);
    await store.apps.markDeleted({ appNumber, now: NOW });
    expect(await store.bulkJobs.list({ appNumber, limit: 50 })).toEqual([]);
    expect(await store.bulkJobs.open(50)).toEqual([]);
  });
});

type Cancel = (run: RunKey) => Promise<void>;

async function noCancel(): Promise<void> {}

const FATE = { state: "failure", statusCode: 500, errorCode: "app_error", errorMessage: "no" } as const;
const CANCELLED = { state: "cancelled", statusCode: null, errorCode: null, errorMessage: null } as const;
