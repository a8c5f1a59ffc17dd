import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Run } from "../../../src/model/run.ts";
import type { ScheduleSpec } from "../../../src/model/schedule.ts";
import type { PlannedSchedule } from "../../../src/store/schedules/schedules.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { idAt } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const NOW = Date.UTC(2026, 0, 2);
const MINUTE_MS = 60_000;
const SPEC: ScheduleSpec = {
  cron: "* * * * *",
  timezone: "UTC",
  functionName: "run",
  input: { a: 1 },
  overlap: "skip",
  catchUp: "none",
  jitterSeconds: 0,
};
const NEXT = { nextAt: NOW + MINUTE_MS, fireAt: NOW + MINUTE_MS };

describe.each(DATABASE_KINDS)("schedules on %s", (kind) => {
  let store: Store;
  let projectId: string;
  beforeAll(async () => {
    store = await openStore(await databases.fresh(kind));
    projectId = `p-${randomUUID().slice(0, 8)}`;
    await store.projects.insert({ id: projectId, name: "one", createdAt: NOW });
  });
  afterAll(async () => {
    await store.close();
  });

  /** An app that serves a version with these schedules. */
  async function appWith(schedules: readonly PlannedSchedule[]) {
    const name = `app-${randomUUID().slice(0, 8)}`;
    const { number: appNumber } = await store.apps.insertOrFind({ projectId, name, createdAt: NOW });
    const deploy = async (next: readonly PlannedSchedule[]): Promise<string> => {
      const versionId = idAt(NOW);
      const bundle = `bundles/${name}`;
      const config = {} as never;
      await store.versions.insert({ id: versionId, appNumber, config, bundle, createdAt: NOW });
      await store.apps.setCurrentVersion({ appNumber, versionId, schedules: next, now: NOW });
      return versionId;
    };
    const versionId = await deploy(schedules);
    const find = async (of = "a") => (await store.schedules.find({ appNumber, name: of }))!;
    return { appNumber, versionId, deploy, find };
  }

  const planned = (spec: Partial<ScheduleSpec> = {}, name = "a"): PlannedSchedule => ({
    name,
    spec: { ...SPEC, ...spec },
    ...NEXT,
  });

  /** Fires a schedule for times, as a node does that has read it with its next time. */
  async function fire(number: number, expectedAt: number, ...ats: readonly number[]) {
    const times = ats.map((at) => ({ at, runId: idAt(NOW) }));
    const nextAt = expectedAt + 10 * MINUTE_MS;
    const all = await store.firings.due({ now: Number.MAX_SAFE_INTEGER, limit: 1_000 });
    const updatedAt = all.find((one) => one.number === number)?.updatedAt ?? 0;
    const due = [{ number, updatedAt, expectedAt, times, nextAt, fireAt: nextAt }];
    return { ...(await store.firings.fire({ due, now: NOW })), times };
  }

  const states = async (number: number) =>
    (await store.firings.last({ schedules: [number], limit: 10 })).map(({ at, state }) => [at, state]);
  const runsOf = async (appNumber: number): Promise<Run[]> => await store.runs.list({ appNumber, limit: 10 });

  async function end({ appNumber, id }: Pick<Run, "appNumber" | "id">): Promise<void> {
    const run = (await store.runs.find({ appNumber, id }))!;
    const ended: Run = { ...run, state: "cancelled", completedAt: NOW };
    expect(await store.claims.endQueued([{ run: ended, result: null }])).toEqual([0]);
  }

  verifies("schedules.once", "of several nodes that fire the same time, one starts a run", async () => {
    const { appNumber, versionId, find } = await appWith([planned()]);
    const { number, nextAt } = await find();
    const at = nextAt!;
    const fired = await Promise.all([1, 2, 3].map(() => fire(number, at, at)));
    expect(fired.map(({ runs }) => runs).toSorted((a, b) => a - b)).toEqual([0, 0, 1]);
    expect(fired.flatMap(({ appNumbers }) => appNumbers)).toEqual([appNumber]);
    const [run, ...others] = await runsOf(appNumber);
    expect(others).toEqual([]);
    expect(run).toMatchObject({ state: "queued", isAsync: true, functionName: "run", versionId });
    expect(Buffer.from((await store.payloads.find(run!))!.input!).toString()).toBe('{"a":1}');
    expect(await store.schedules.ofRun(run!)).toEqual({ name: "a", at });
    expect(await find()).toMatchObject({ nextAt: at + 10 * MINUTE_MS });
    // Somebody who sets it back would have it fire again: the time is taken.
    const back = { spec: SPEC, isPaused: false, nextAt: at, fireAt: at, now: NOW };
    await store.schedules.change({ ...(await find()), ...back });
    expect(await fire(number, at, at, at + 1_000)).toMatchObject({ runs: 0, moved: 1 });
    expect(await states(number)).toEqual([
      [at + 1_000, "skipped"],
      [at, "started"],
    ]);
  });

  verifies("schedules.skip", "a time is skipped while a run of the schedule is unfinished", async () => {
    const { appNumber, find } = await appWith([planned()]);
    const { number, nextAt } = await find();
    const at = nextAt!;
    await fire(number, at, at, at + 1);
    const second = at + 10 * MINUTE_MS;
    await fire(number, second, second);
    expect(await states(number)).toEqual([
      [second, "skipped"],
      [at + 1, "started"],
      [at, "skipped"],
    ]);
    await end((await runsOf(appNumber))[0]!);
    const third = second + 10 * MINUTE_MS;
    await fire(number, third, third);
    expect((await states(number)).slice(0, 3)).toEqual([
      [third, "started"],
      [second, "skipped"],
      [at + 1, "ended"],
    ]);
  });

  verifies("schedules.queue", "a time waits for the end of the run before, and begins once", async () => {
    const { appNumber, find } = await appWith([planned({ overlap: "queue" })]);
    const { number, nextAt } = await find();
    const at = nextAt!;
    await fire(number, at, at, at + 1, at + 2);
    expect((await states(number)).map(([, state]) => state)).toEqual(["waiting", "waiting", "started"]);
    const startable = async () =>
      (await store.firings.startable(100)).filter(({ schedule }) => schedule === number);
    expect(await startable()).toEqual([]);
    expect((await store.firings.outlook()).hasOpen).toBe(true);
    await end((await runsOf(appNumber))[0]!);
    expect(await startable()).toEqual([{ schedule: number, at: at + 1 }]);
    const start = async () => {
      const waiting = [{ schedule: number, at: at + 1, runId: idAt(NOW) }];
      return (await store.firings.start({ waiting, now: NOW })).runs;
    };
    const starts = await Promise.all([start(), start(), start()]);
    expect(starts.toSorted((a, b) => a - b)).toEqual([0, 0, 1]);
    expect(await startable()).toEqual([]);
    expect(await states(number)).toEqual([
      [at + 2, "waiting"],
      [at + 1, "started"],
      [at, "ended"],
    ]);
    expect(await runsOf(appNumber)).toHaveLength(2);
  });

  test("so many times wait, and no more", async () => {
    const { appNumber, find } = await appWith([planned({ overlap: "queue" })]);
    const { number, nextAt } = await find();
    await fire(number, nextAt!, ...Array.from({ length: 103 }, (_, i) => nextAt! + i));
    const all = await store.firings.last({ schedules: [number], limit: 200 });
    const counts = Object.fromEntries(
      Array.from(
        Map.groupBy(all, ({ state }) => state),
        ([state, those]) => [state, those.length],
      ),
    );
    expect(counts).toEqual({ started: 1, waiting: 100, skipped: 2 });
    expect(await runsOf(appNumber)).toHaveLength(1);
  });

  verifies("schedules.cancel", "an unfinished run is to be cancelled by its node", async () => {
    const { appNumber, find } = await appWith([planned({ overlap: "cancel" })]);
    const { number, nextAt } = await find();
    const at = nextAt!;
    await fire(number, at, at);
    const [first] = await runsOf(appNumber);
    const holder = { owner: "other", limit: 10, maxBytes: 1_000 };
    expect((await store.claims.claim({ appNumber, ...holder })).runs).toHaveLength(1);
    const second = at + 10 * MINUTE_MS;
    await fire(number, second, second - 1, second);
    expect(await states(number)).toEqual([
      [second, "started"],
      [second - 1, "skipped"],
      [at, "superseded"],
    ]);
    const superseded = async (owner: string) =>
      (await store.firings.superseded({ owner, limit: 10 })).filter(({ schedule }) => schedule === number);
    expect(await superseded("one")).toEqual([]);
    const run = { appNumber, id: first!.id };
    expect(await superseded("other")).toEqual([{ schedule: number, at, run }]);
    await store.claims.release([{ ...run, owner: "other", fence: 1, isInterruption: true, attempt: 1 }]);
    expect(await superseded("one")).toEqual([{ schedule: number, at, run }]);
    await end(run);
    expect(await superseded("one")).toEqual([{ schedule: number, at, run: null }]);
    await store.firings.end([{ schedule: number, at }]);
    expect(await superseded("one")).toEqual([]);
  });

  verifies("schedules.deploy", "a deploy replaces schedules by name, and paused ones stay so", async () => {
    const { deploy, find } = await appWith([planned(), planned({}, "b"), planned({}, "c")]);
    const [a, b] = [await find("a"), await find("b")];
    await store.schedules.change({ ...b, isPaused: true, nextAt: null, fireAt: null, now: NOW });
    const later = { nextAt: NOW + 5 * MINUTE_MS, fireAt: NOW + 5 * MINUTE_MS };
    const inputs = { input: { a: 2 } };
    await deploy([
      { ...planned(inputs), ...later },
      { ...planned(inputs, "b"), ...later },
      { ...planned({}, "d"), ...later },
    ]);
    expect(await find("a")).toMatchObject({ number: a.number, spec: inputs, ...NEXT });
    expect(await find("b")).toMatchObject({ spec: inputs, isPaused: true, nextAt: null, fireAt: null });
    expect(await find("c")).toBeNull();
    expect(await find("d")).toMatchObject({ isPaused: false, ...later });
    await deploy([{ ...planned({ cron: "5 * * * *" }), ...later }]);
    expect(await find("a")).toMatchObject({ number: a.number, ...later });
    const stopped = { ...(await find("a")), nextAt: null, fireAt: null, now: NOW };
    expect(await store.schedules.change(stopped)).toMatchObject({ nextAt: null, isPaused: false });
    await deploy([{ ...planned({ cron: "5 * * * *" }), ...later }]);
    expect(await find("a")).toMatchObject({ number: a.number, ...later });
  });

  test("a deploy leaves the schedules of the API, but takes over one of its name", async () => {
    const { appNumber, deploy, find } = await appWith([]);
    const added = { appNumber, now: NOW, ...NEXT, spec: SPEC };
    for (const name of ["a", "b"])
      expect(await store.schedules.insert({ ...added, name })).toMatchObject({
        schedule: { name, source: "api" },
      });
    expect(await store.schedules.insert({ ...added, name: "a" })).toEqual({ schedule: null, isFull: false });
    await deploy([planned()]);
    expect([(await find("a")).source, (await find("b")).source]).toEqual(["app", "api"]);
    await deploy([]);
    expect((await store.schedules.list({ appNumber, after: "", limit: 9 })).map(({ name }) => name)).toEqual([
      "b",
    ]);
  });

  test("a change of a schedule that has changed since does nothing", async () => {
    const { find } = await appWith([planned()]);
    const read = await find();
    const pause = { ...read, isPaused: true, nextAt: null, fireAt: null, now: NOW };
    const all = await Promise.all([1, 2, 3].map(() => store.schedules.change(pause)));
    expect(all.filter((changed) => changed !== null)).toHaveLength(1);
    expect(await fire(read.number, read.nextAt!, read.nextAt!)).toMatchObject({ runs: 0, moved: 0 });
  });

  verifies(
    "schedules.deleted",
    "the schedules of a deleted app are gone, its runs say who started them",
    async () => {
      const { appNumber, find } = await appWith([planned()]);
      const { number, nextAt } = await find();
      await fire(number, nextAt!, nextAt!);
      const [run] = await runsOf(appNumber);
      await store.apps.markDeleted({ appNumber, now: NOW });
      expect(await store.schedules.list({ appNumber, after: "", limit: 9 })).toEqual([]);
      expect(await fire(number, nextAt! + 10 * MINUTE_MS, nextAt! + 1)).toMatchObject({ runs: 0 });
      expect(await store.schedules.ofRun(run!)).toEqual({ name: "a", at: nextAt });
      await end(run!);
      while ((await store.retention.removeRuns({ cutoff: NOW + MINUTE_MS, limit: 100 })) > 0);
      expect(await store.schedules.ofRun(run!)).toBeNull();
    },
  );

  test("a run that was asked for has a time of its own, and changes no other", async () => {
    const { appNumber, find } = await appWith([planned()]);
    const schedule = await find();
    const { number } = schedule;
    const asked = { schedule: number, at: NOW, now: NOW };
    const all = await Promise.all([1, 2, 3].map(() => store.firings.fireNow({ ...asked, runId: idAt(NOW) })));
    expect(all.map((fired) => fired?.runs)).toEqual([1, 1, 1]);
    const last = await store.firings.last({ schedules: [number], limit: 5 });
    expect(last.map(({ at, isManual, runState }) => [at, isManual, runState])).toEqual(
      [NOW + 3, NOW + 2, NOW + 1].map((at) => [at, true, "queued"]),
    );
    expect(await find()).toEqual(schedule);
    expect(await runsOf(appNumber)).toHaveLength(3);
  });

  test("a schedule that was changed since it was read fires by its new times", async () => {
    const { find } = await appWith([planned()]);
    const { updatedAt, ...read } = await find();
    const { number, nextAt } = read;
    const changed = { ...read, updatedAt, spec: { ...SPEC, cron: "1 0 * * *" }, now: NOW };
    expect(await store.schedules.change(changed)).toMatchObject({ nextAt });
    const times = [{ at: nextAt!, runId: idAt(NOW) }];
    const next = { nextAt: nextAt! + MINUTE_MS, fireAt: nextAt! + MINUTE_MS };
    const due = [{ number, updatedAt, expectedAt: nextAt!, times, ...next }];
    expect(await store.firings.fire({ due, now: NOW })).toMatchObject({ runs: 0, moved: 0 });
    expect(await find()).toMatchObject({ nextAt });
  });

  test("an app without a version starts nothing", async () => {
    const { number: appNumber } = await store.apps.insertOrFind({ projectId, name: "empty", createdAt: NOW });
    await store.schedules.insert({ appNumber, now: NOW, ...NEXT, spec: SPEC, name: "a" });
    const { number, nextAt } = (await store.schedules.find({ appNumber, name: "a" }))!;
    expect(await fire(number, nextAt!, nextAt!)).toMatchObject({ runs: 0, moved: 1 });
    expect(await states(number)).toEqual([[nextAt, "skipped"]]);
    expect(await store.firings.fireNow({ schedule: number, at: NOW, runId: idAt(NOW), now: NOW })).toBeNull();
  });

  test("of firings without a run the last ones are kept", async () => {
    const { find } = await appWith([planned()]);
    const { number, nextAt } = await find();
    let at = nextAt!;
    for (let i = 0; i < 3; i++, at += 10 * MINUTE_MS)
      await fire(number, at, ...Array.from({ length: 60 }, (_, n) => at + n));
    for (let after: number | null = 0; after !== null;)
      after = await store.firings.prune({ after, limit: 2 });
    const kept = await store.firings.last({ schedules: [number], limit: 200 });
    expect(kept.map(({ state }) => state).filter((state) => state === "started")).toHaveLength(1);
    expect(kept).toHaveLength(101);
    for (let i = 0; i < 120; i++)
      await store.firings.fireNow({ schedule: number, at: at + i, runId: idAt(NOW), now: NOW });
    for (let after: number | null = 0; after !== null;)
      after = await store.firings.prune({ after, limit: 2 });
    const states = (await store.firings.last({ schedules: [number], limit: 999 })).map(({ state }) => state);
    expect(states.filter((state) => state === "skipped")).toHaveLength(100);
  });

  test("what is due is found, the earliest first", async () => {
    const late = { nextAt: 2_000, fireAt: 2_500 };
    const early = { nextAt: 1_000, fireAt: 2_400 };
    const { appNumber } = await appWith([
      { ...planned({}, "late"), ...late },
      { ...planned({}, "early"), ...early },
    ]);
    expect((await store.firings.outlook()).nextAt).toBe(2_400);
    const due = async (now: number) => (await store.firings.due({ now, limit: 10 })).map(({ name }) => name);
    expect([await due(2_399), await due(2_400), await due(2_500)]).toEqual([
      [],
      ["early"],
      ["early", "late"],
    ]);
    await store.apps.markDeleted({ appNumber, now: NOW });
  });
});
