import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/kit/clock.ts";
import { createLog } from "../../../src/kit/log.ts";
import type { RunKey } from "../../../src/model/run.ts";
import type { ScheduleSpec } from "../../../src/model/schedule.ts";
import { planSchedules } from "../../../src/model/schedule-times.ts";
import { Scheduler } from "../../../src/runs/schedules/scheduler.ts";
import { Tracer } from "../../../src/runs/traces/tracer.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { idAt } from "../../support/sample-run.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const MINUTE_MS = 60_000;
const NOON = Date.UTC(2026, 0, 15, 12);
const SPEC: ScheduleSpec = {
  cron: "*/10 * * * *",
  timezone: "UTC",
  functionName: "run",
  input: {},
  overlap: "queue",
  catchUp: "none",
  jitterSeconds: 0,
};

const dataDir = mkdtempSync(path.join(tmpdir(), "millrace-schedules-"));
let store: Store;
let apps = 0;
beforeAll(async () => {
  store = await openStore({ databaseUrl: null, dataDir });
  await store.projects.insert({ id: "p-schedules", name: "one", createdAt: NOON });
});
afterAll(async () => {
  await store.close();
  rmSync(dataDir, { recursive: true, force: true });
});

/** A schedule of an app of its own, and a scheduler whose date is set by minutes after noon. */
async function scheduled(spec: Partial<ScheduleSpec> = {}) {
  const name = `app-${(apps += 1)}`;
  const app = { projectId: "p-schedules", name, createdAt: NOON };
  const { number: appNumber } = await store.apps.insertOrFind(app);
  const versionId = idAt(NOON);
  const version = { id: versionId, appNumber, config: {} as never, bundle: name, createdAt: NOON };
  await store.versions.insert(version);
  const schedules = planSchedules([{ name: "a", ...SPEC, ...spec }], appNumber, NOON);
  await store.apps.setCurrentVersion({ appNumber, versionId, schedules, now: NOON });
  const { number } = (await store.schedules.find({ appNumber, name: "a" }))!;
  let now = NOON;
  const woken: number[] = [];
  const waits: number[] = [];
  const cancelled: RunKey[] = [];
  const reserve: { refusal: string | null } = { refusal: null };
  const scheduler = new Scheduler({
    store,
    tracer: new Tracer(null),
    clock: {
      ...systemClock,
      now: () => now,
      after: (ms, action) => {
        waits.push(ms);
        return systemClock.after(ms, action);
      },
    },
    log: createLog("silent"),
    owner: "one",
    reserve,
    wake: (of) => void woken.push(of),
    cancel: async (run) => void cancelled.push(run),
  });
  onTestFinished(async () => {
    await scheduler.stop();
    await store.apps.markDeleted({ appNumber, now: NOON });
  });
  const at = async (minute: number, seconds = 0): Promise<void> => {
    now = NOON + minute * MINUTE_MS + seconds * 1_000;
    await scheduler.look();
  };
  /** The minutes for which it has fired, in order. */
  const fired = async (): Promise<number[]> =>
    (await store.firings.last({ schedules: [number], limit: 200 }))
      .map((firing) => (firing.at - NOON) / MINUTE_MS)
      .toReversed();
  return { appNumber, scheduler, reserve, waits, woken, cancelled, at, fired };
}

verifies(
  ["schedules.steps", "schedules.once"],
  "a clock that is set back fires nothing again, and one that is set forward misses times",
  async () => {
    const { appNumber, woken, at, fired } = await scheduled();
    await at(9, 59);
    expect(await fired()).toEqual([]);
    await at(10);
    await at(10);
    expect([await fired(), woken]).toEqual([[10], [appNumber]]);
    await at(20, 1);
    await at(5);
    await at(10);
    await at(20);
    expect(await fired()).toEqual([10, 20]);
    await at(30);
    // Four times were skipped; the last of them is not late.
    await at(72);
    expect(await fired()).toEqual([10, 20, 30, 70]);
  },
);

verifies("schedules.catch-up", "what passed while no service was there is made up for", async () => {
  const all = await scheduled({ catchUp: "all" });
  const last = await scheduled({ catchUp: "last" });
  await last.at(38);
  expect([await all.fired(), await last.fired()]).toEqual([[10, 20, 30], [30]]);
});

test("while the disk is full nothing fires", async () => {
  const { reserve, waits, at, fired } = await scheduled();
  reserve.refusal = "full";
  await at(10);
  expect(await fired()).toEqual([]);
  // Not as fast as it can, though the time has come.
  expect(waits).toEqual([]);
  reserve.refusal = null;
  await at(11);
  expect(await fired()).toEqual([10]);
});

test("a schedule that cannot be read stops no other", async () => {
  const { appNumber, at, fired } = await scheduled();
  const next = { nextAt: NOON + 5 * MINUTE_MS, fireAt: NOON + 5 * MINUTE_MS };
  const odd = { ...SPEC, cron: "of another release" };
  await store.schedules.insert({ appNumber, name: "odd", spec: odd, now: NOON, ...next });
  await at(10);
  expect(await fired()).toEqual([10]);
  expect(await store.schedules.find({ appNumber, name: "odd" })).toMatchObject({
    nextAt: null,
    fireAt: null,
  });
});

test("the run whose place another has taken is cancelled", async () => {
  const { appNumber, at, cancelled } = await scheduled({ overlap: "cancel" });
  await at(10);
  const [first] = await store.runs.list({ appNumber, limit: 1 });
  await at(20);
  expect(cancelled).toEqual([{ appNumber, id: first!.id }]);
});

test("many schedules are fired in turns, and those that wait begin as others end", async () => {
  const { appNumber, at, fired } = await scheduled();
  for (let i = 0; i < 250; i++) {
    const spec = { ...SPEC, overlap: "skip" } as const;
    const next = { nextAt: NOON + 10 * MINUTE_MS, fireAt: NOON + 10 * MINUTE_MS };
    await store.schedules.insert({ appNumber, name: `b${i}`, spec, now: NOON, ...next });
  }
  await at(10);
  expect(await store.runs.count({ appNumber })).toBe(251);
  await at(20);
  const runs = await store.runs.list({ appNumber, limit: 300 });
  const ended = runs.map((run) => ({ ...run, state: "cancelled", completedAt: NOON }) as const);
  await store.claims.endQueued(ended.map((run) => ({ run, result: null })));
  await at(21);
  expect([await fired(), await store.runs.count({ appNumber })]).toEqual([[10, 20], 252]);
});

test("it fires at the time itself, not at the next look", async () => {
  const { scheduler, appNumber } = await scheduled();
  const soon = systemClock.now() + 100;
  const now = { clock: systemClock, store };
  const own = new Scheduler({
    ...now,
    log: createLog("silent"),
    owner: "one",
    reserve: { refusal: null },
    tracer: new Tracer(null),
    wake: () => {},
    cancel: async () => {},
  });
  onTestFinished(() => own.stop());
  await scheduler.stop();
  const next = { nextAt: soon, fireAt: soon };
  await store.schedules.insert({ appNumber, name: "soon", spec: SPEC, now: NOON, ...next });
  own.start();
  await until(
    "it has fired",
    async () => (await store.schedules.find({ appNumber, name: "soon" }))!.nextAt! > soon,
  );
});
