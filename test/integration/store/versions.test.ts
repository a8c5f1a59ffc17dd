import { describe, expect, test } from "vitest";
import { uuidv7 } from "../../support/ids.ts";
import type { AppConfig } from "../../../src/model/app-config.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { queuedRun, samplePayload } from "../../support/sample-run.ts";
import { NOW, sampleStore } from "../../support/sample-store.ts";

const databases = testDatabases();
// The store keeps a config as it is; its shape is not the store's affair.
const CONFIG = { deployment: { name: "hello" }, scaling: { maxReplicas: 3 } } as unknown as AppConfig;

describe.each(DATABASE_KINDS)("versions on %s", (kind) => {
  const { store, newApp } = sampleStore(databases, kind);
  async function newVersion(appNumber: number, createdAt = NOW) {
    return await store().versions.insert({
      id: uuidv7(createdAt),
      appNumber,
      config: CONFIG,
      bundle: "bundles/b",
      createdAt,
    });
  }

  test("versions of an app are numbered from 1 without a gap, however many come at once", async () => {
    const { number } = await newApp();
    const made = await Promise.all(Array.from({ length: 6 }, () => newVersion(number)));
    expect(made.map((version) => version.number).toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6]);
    const listed = await store().versions.list(number);
    expect(listed.map((version) => version.number)).toEqual([6, 5, 4, 3, 2, 1]);
  });

  test("a version is found as it was stored, and learns its functions", async () => {
    const { number } = await newApp();
    const version = await newVersion(number);
    expect(await store().versions.find(version.id)).toEqual({
      id: version.id,
      appNumber: number,
      number: 1,
      config: CONFIG,
      bundle: "bundles/b",
      bundleHash: null,
      bundleBlob: null,
      bundleBytes: null,
      environmentBlob: null,
      environmentBytes: null,
      environmentTag: null,
      environment: null,
      overrides: null,
      functions: null,
      createdAt: NOW,
    });
    const functions = [
      { name: "run", parameters: [], isAsync: false, isGenerator: true, wantsRunId: false, doc: null },
    ];
    expect(await store().versions.setFunctions({ id: version.id, functions })).toBe(true);
    expect((await store().versions.find(version.id))?.functions).toEqual(functions);
    expect(await store().versions.setFunctions({ id: uuidv7(NOW), functions })).toBe(false);
    expect(await store().versions.find(uuidv7(NOW))).toBeNull();
  });

  test("what is changed of a version's scaling stands over its configuration, and can be taken back", async () => {
    const { number } = await newApp();
    const { id } = await newVersion(number);
    expect(await store().versions.setOverrides({ id, overrides: { maxReplicas: 9 } })).toBe(true);
    expect(await store().versions.find(id)).toMatchObject({
      config: { deployment: { name: "hello" }, scaling: { maxReplicas: 9 } },
      overrides: { maxReplicas: 9 },
    });
    expect(await store().versions.findDeployed(id)).toEqual(CONFIG);
    expect(await store().versions.findDeployed(uuidv7(NOW))).toBeNull();
    await store().versions.setOverrides({ id, overrides: null });
    expect(await store().versions.find(id)).toMatchObject({ config: CONFIG, overrides: null });
    expect(await store().versions.setOverrides({ id: uuidv7(NOW), overrides: null })).toBe(false);
  });

  test("versions are forgotten, but none that is served, and those that unfinished runs name are known", async () => {
    const { number } = await newApp();
    const [old, used, current] = [
      await newVersion(number),
      await newVersion(number),
      await newVersion(number),
    ];
    await store().apps.setCurrentVersion({ appNumber: number, versionId: current.id, now: NOW });
    const run = queuedRun({ appNumber: number, versionId: used.id });
    await store().runs.accept([{ run, payload: samplePayload(), owner: null }]);
    expect(await store().versions.inUse(number)).toEqual([used.id]);
    await store().versions.remove([]);
    await store().versions.remove([old.id, current.id]);
    expect((await store().versions.list(number)).map(({ id }) => id)).toEqual([current.id, used.id]);
  });

  test("a version needs an app that is there", async () => {
    const { number } = await newApp();
    await store().apps.markDeleted({ appNumber: number, now: NOW });
    await expect(newVersion(number)).rejects.toMatchObject({ name: "AppError", code: "app_not_found" });
  });

  test("only a version of the same app can become its current one", async () => {
    const { number: appNumber, projectId } = await newApp();
    const foreign = await newVersion((await newApp()).number);
    const own = await newVersion(appNumber);
    const set = (versionId: string) => store().apps.setCurrentVersion({ appNumber, versionId, now: NOW + 9 });
    expect(await set(foreign.id)).toBe(false);
    expect(await set(own.id)).toBe(true);
    const app = await store().apps.find({ projectId, name: "hello" });
    expect(app).toMatchObject({ currentVersionId: own.id, updatedAt: NOW + 9 });
  });
});
