import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { uuidv7 } from "../../support/ids.ts";
import type { AppConfig } from "../../../src/model/app-config.ts";
import { BUILD_STATUSES, canBuildMove, isFinalBuild } from "../../../src/model/build.ts";
import type { BuildLine, BuildStatus } from "../../../src/model/build.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";

const databases = testDatabases();
const NOW = Date.UTC(2026, 0, 2, 3, 4, 5);
/** How a build comes to each status. */
const WAYS: Record<BuildStatus, readonly BuildStatus[]> = {
  pending: [],
  building: ["building"],
  initializing: ["building", "initializing"],
  success: ["building", "initializing", "success"],
  build_failure: ["building", "build_failure"],
  init_failure: ["building", "initializing", "init_failure"],
  init_timeout: ["building", "initializing", "init_timeout"],
  cancelled: ["cancelled"],
};

describe.each(DATABASE_KINDS)("builds on %s", (kind) => {
  let store: Store;
  let apps = 0;

  beforeAll(async () => {
    const database = await databases.fresh(kind);
    store = await openStore(database);
    await store.projects.insert({ id: "p-test", name: "test", createdAt: NOW });
  });
  afterAll(async () => {
    await store.close();
  });

  const newApp = async () =>
    (await store.apps.insertOrFind({ projectId: "p-test", name: `app${++apps}`, createdAt: NOW })).number;
  async function newBuild(appNumber: number, status: BuildStatus = "pending"): Promise<string> {
    const id = uuidv7(NOW);
    await store.builds.insert({ id, appNumber, payload: '{"name":"x"}', createdAt: NOW });
    for (const to of WAYS[status]) expect(await store.builds.move({ id, to, now: NOW })).toBe(true);
    return id;
  }

  test("a build is found as it was stored, and the newest first", async () => {
    const appNumber = await newApp();
    const ids = [await newBuild(appNumber), await newBuild(appNumber), await newBuild(appNumber)];
    expect(await store.builds.find(ids[0] ?? "")).toEqual({
      id: ids[0],
      appNumber,
      status: "pending",
      message: null,
      payload: '{"name":"x"}',
      createdAt: NOW,
      updatedAt: NOW,
    });
    expect(await store.builds.find(uuidv7(NOW))).toBeNull();
    const page = await store.builds.list({ appNumber, limit: 2 });
    expect(page.map(({ id }) => id)).toEqual([ids[2], ids[1]]);
    const rest = await store.builds.list({ appNumber, limit: 2, before: ids[1] ?? "" });
    expect(rest.map(({ id }) => id)).toEqual([ids[0]]);
    expect((await store.builds.latest(appNumber))?.id).toBe(ids[2]);
    expect(await store.builds.latest(await newApp())).toBeNull();
  });

  test("a build makes every legal move and no other, and final is final", async () => {
    const appNumber = await newApp();
    for (const from of BUILD_STATUSES) {
      for (const to of BUILD_STATUSES) {
        const id = await newBuild(appNumber, from);
        const isLegal = canBuildMove(from, to);
        const moved = await store.builds.move({ id, to, message: "why", now: NOW + 1 });
        expect([from, to, moved]).toEqual([from, to, isLegal]);
        const build = await store.builds.find(id);
        expect(build).toMatchObject({ status: isLegal ? to : from, message: isLegal ? "why" : null });
        expect(isFinalBuild(from) && isLegal).toBe(false);
      }
    }
    const unfinished = await store.builds.unfinished();
    expect(unfinished.every(({ status }) => !isFinalBuild(status))).toBe(true);
    expect(new Set(unfinished.map(({ status }) => status)).size).toBe(3);
  });

  test("lines are read in order from any number on, and a line written twice is there once", async () => {
    const buildId = await newBuild(await newApp());
    const lines = Array.from({ length: 1_200 }, (_, i): BuildLine => ({
      number: i + 1,
      createdAt: NOW + i,
      stream: i % 2 === 0 ? "stdout" : "stderr",
      stage: "check",
      text: `line ${i} ☃`,
    }));
    await store.buildLines.append({ buildId, lines });
    await store.buildLines.append({
      buildId,
      lines: [...lines.slice(-1), { ...lines[0]!, number: 1_201, text: "a\0b" }],
    });
    expect(await store.buildLines.list({ buildId, after: 0, limit: 5_000 })).toEqual([
      ...lines,
      { ...lines[0], number: 1_201, text: "a\uFFFDb" },
    ]);
    expect(await store.buildLines.list({ buildId, after: 10, limit: 1 })).toEqual([lines[10]]);
    expect(await store.buildLines.list({ buildId: uuidv7(NOW), after: 0, limit: 1 })).toEqual([]);
  });

  test("old builds go with their lines, but none that has a version or has not ended", async () => {
    const appNumber = await newApp();
    const failed = await newBuild(appNumber, "build_failure");
    const served = await newBuild(appNumber, "success");
    const waiting = await newBuild(appNumber);
    const newest = await newBuild(appNumber, "cancelled");
    const config = { scaling: {} } as unknown as AppConfig;
    await store.versions.insert({ id: served, appNumber, config, bundle: "bundles/b", createdAt: NOW });
    const line = { number: 1, createdAt: NOW, stream: "stdout", stage: "build", text: "x" } as const;
    for (const buildId of [failed, newest]) await store.buildLines.append({ buildId, lines: [line] });
    expect(await store.builds.prune({ appNumber, keep: 1 })).toBe(1);
    const left = await store.builds.list({ appNumber, limit: 10 });
    expect(left.map(({ id }) => id)).toEqual([newest, waiting, served]);
    expect(await store.buildLines.list({ buildId: failed, after: 0, limit: 9 })).toEqual([]);
    expect(await store.buildLines.list({ buildId: newest, after: 0, limit: 9 })).toEqual([line]);
  });
});
