import { randomUUID } from "node:crypto";
import { beforeAll, afterAll, expect, test } from "vitest";
import { openStore, type Store } from "../../../src/store/store.ts";
import { testDatabases } from "../../support/databases.ts";
import { signOfLife } from "../../support/leases.ts";
import { queuedRun, samplePayload } from "../../support/sample-run.ts";
import { sampleNode } from "../../support/sample-node.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const LEASE_MS = 600_000;
const NOW = Date.UTC(2026, 0, 1);
const projectId = "p-owners";
let store: Store;
let names = 0;

beforeAll(async () => {
  store = await openStore(await databases.fresh("postgres"));
  await store.projects.insert({ id: projectId, name: "test", createdAt: NOW });
  for (const id of ["one", "two"]) await signOfLife(store, id, LEASE_MS);
});
afterAll(() => store.close());

async function newApp(): Promise<{ name: string; number: number }> {
  names += 1;
  return await store.apps.insertOrFind({ projectId, name: `app-${names}`, createdAt: NOW });
}

const take = async (owner: string, number: number, mayJudge = true) =>
  await store.appOwners.take({ appNumbers: [number], owner, dead: [], mayJudge });

verifies("nodes.one-owner", "of many nodes that try to take an app, one gets it", async () => {
  const { number, name } = await newApp();
  const nodes = Array.from({ length: 8 }, (_, i) => `node-${i}`);
  for (const id of nodes) await signOfLife(store, id, LEASE_MS);
  const taken = (await Promise.all(nodes.map((id) => take(id, number)))).flat();
  expect(taken).toEqual([{ appNumber: number, fence: 1 }]);
  const [place] = await store.appOwners.find([{ projectId, name }]);
  const known = { appNumber: number, owner: expect.any(String), fence: 1, isAlive: true };
  expect(place).toEqual({ ...known, projectId, name });
  expect(await store.appOwners.owned(place?.owner ?? "")).toEqual(taken);
});

test("only a dead node's apps are taken, and by whom may judge, and lives", async () => {
  const { number } = await newApp();
  await signOfLife(store, "mortal", LEASE_MS);
  await take("mortal", number);
  expect(await take("two", number)).toEqual([]);
  await signOfLife(store, "mortal", -1);
  expect(await take("two", number, false)).toEqual([]);
  expect(await take("mortal", number)).toEqual([]);
  expect(await take("two", number)).toEqual([{ appNumber: number, fence: 2 }]);
});

test("a node that is known to be dead keeps nothing, whatever its lease says", async () => {
  const { number } = await newApp();
  await take("one", number);
  const query = { appNumbers: [number], owner: "two", mayJudge: false };
  expect(await store.appOwners.take({ ...query, dead: ["other"] })).toEqual([]);
  expect(await store.appOwners.take({ ...query, dead: ["one"] })).toEqual([{ appNumber: number, fence: 2 }]);
});

test("an app is given by the node that has it, to one that lives or to none", async () => {
  const { number } = await newApp();
  await take("one", number);
  const give = (from: string, to: string | null, fence: number) =>
    store.appOwners.handOver({ appNumber: number, from, to, fence });
  expect(await give("two", "one", 1)).toBeNull();
  expect(await give("one", "nobody", 1)).toBeNull();
  expect(await give("one", "two", 1)).toBe(2);
  expect(await give("one", "two", 1)).toBeNull();
  expect(await give("two", null, 2)).toBe(3);
  expect(await take("one", number, false)).toEqual([{ appNumber: number, fence: 4 }]);
});

verifies("nodes.fence", "a node that has lost an app can neither claim its runs nor change it", async () => {
  const { number } = await newApp();
  await take("one", number);
  await store.appOwners.handOver({ appNumber: number, from: "one", to: "two", fence: 1 });
  await store.runs.accept([{ run: queuedRun({ appNumber: number }), payload: samplePayload(), owner: null }]);
  const claim = async (owner: string, fence: number) =>
    await store.claims.claim({
      appNumber: number,
      owner,
      limit: 1,
      maxBytes: 1_000,
      holder: { owner, fence },
    });
  expect(await claim("one", 1)).toMatchObject({ runs: [], hasMore: false, isRefused: true });
  const moved = { code: "app_moved" };
  const late = { appNumber: number, holder: { owner: "one", fence: 1 } };
  await expect(store.apps.markDeleted({ ...late, now: NOW })).rejects.toMatchObject(moved);
  await expect(
    store.apps.setCurrentVersion({ ...late, versionId: queuedRun().id, now: NOW }),
  ).rejects.toMatchObject(moved);
  await expect(
    store.versions.setOverrides({ id: queuedRun().id, overrides: null, held: late }),
  ).rejects.toMatchObject(moved);
  expect((await claim("two", 2)).runs).toHaveLength(1);
  // Nor one whose lease has passed, though nobody has taken the app.
  await signOfLife(store, "two", -1);
  expect(await claim("two", 2)).toMatchObject({ isRefused: true });
  await signOfLife(store, "two", LEASE_MS);
});

test("an app that is deleted has not moved", async () => {
  const { number } = await newApp();
  await take("one", number);
  const deletion = { appNumber: number, now: NOW, holder: { owner: "one", fence: 1 } };
  expect(await store.apps.markDeleted(deletion)).toBe(true);
  await expect(store.apps.markDeleted(deletion)).rejects.toMatchObject({ code: "app_not_found" });
});

test("apps without a living node are found page by page", async () => {
  const apps = [await newApp(), await newApp(), await newApp()];
  const ownerless = await store.appOwners.ownerless({ after: 0, limit: 1_000, dead: [] });
  // Nobody can call an app that has no version.
  expect(ownerless.filter((number) => apps.some((app) => app.number === number))).toEqual([]);
});

verifies("nodes.left-builds", "an app whose first build has not ended is looked after too", async () => {
  const { number } = await newApp();
  const isOwnerless = async (): Promise<boolean> =>
    (await store.appOwners.ownerless({ after: number - 1, limit: 1, dead: [] })).includes(number);
  const id = randomUUID();
  await store.builds.insert({ id, appNumber: number, payload: "{}", createdAt: NOW });
  expect(await isOwnerless()).toBe(true);
  await store.builds.move({ id, to: "cancelled", now: NOW });
  expect(await isOwnerless()).toBe(false);
});

verifies("nodes.both-leave", "an app is not given to a node that is about to leave", async () => {
  const { number } = await newApp();
  await take("one", number);
  const other = await sampleNode(store, {});
  await store.nodes.setLeaving({ id: other.owner, isLeaving: true });
  const given = { appNumber: number, from: "one", to: other.owner, fence: 1 };
  expect(await store.appOwners.handOver(given)).toBeNull();
  await store.nodes.setLeaving({ id: other.owner, isLeaving: false });
  expect(await store.appOwners.handOver(given)).toBe(2);
});
