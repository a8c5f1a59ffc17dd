import { createHash, randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openStore, type Store } from "../../../src/store/store.ts";
import { testDatabases } from "../../support/databases.ts";
import { signOfLife } from "../../support/leases.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const LEASE_MS = 600_000;
const projectId = "p-seats";
const hash = (text: string): Buffer => createHash("sha256").update(text).digest();
let store: Store;
let names = 0;

beforeAll(async () => {
  store = await openStore(await databases.fresh("postgres"));
  await store.projects.insert({ id: projectId, name: "test", createdAt: 1 });
  for (const id of ["one", "two"]) await signOfLife(store, id, LEASE_MS);
});
afterAll(() => store.close());

/** A seat that `dead` had, of an app that `one` has now. */
async function left(): Promise<{ id: string; wish: Parameters<Store["seats"]["claim"]>[0] }> {
  names += 1;
  const { number: appNumber } = await store.apps.insertOrFind({
    projectId,
    name: `a-${names}`,
    createdAt: 1,
  });
  await store.appOwners.take({ appNumbers: [appNumber], owner: "one", dead: [], mayJudge: true });
  const id = `s-${String(names).padStart(12, "0")}`;
  const versionId = randomUUID();
  await signOfLife(store, "dead", LEASE_MS);
  const row = { id, appNumber, versionId, placeName: `place of ${id}`, secretHash: hash(id), fence: 1 };
  await store.seats.add({ ...row, owner: "dead", workload: hash("what runs") });
  const holder = { owner: "one", fence: 1 };
  const wish = { appNumber, versionId, workload: hash("what runs"), holder, dead: [], mayJudge: true };
  return { id, wish };
}

verifies("seats.adopted", "of many that want a seat, one gets it, with the next fence", async () => {
  const { id, wish } = await left();
  expect(await store.seats.claim(wish)).toBeNull();
  await signOfLife(store, "dead", -1);
  expect(await store.seats.claim({ ...wish, mayJudge: false })).toBeNull();
  const claims = await Promise.all(Array.from({ length: 8 }, () => store.seats.claim(wish)));
  expect(claims.filter((claim) => claim !== null)).toEqual([
    { id, placeName: `place of ${id}`, secretHash: hash(id), fence: 2 },
  ]);
  expect(await store.seats.find({ id, secretHash: hash(id) })).toEqual({
    owner: "one",
    fence: 2,
    isAlive: true,
  });
  // The one before does not touch it any more, if it was only away.
  expect(await store.seats.remove({ id, owner: "dead", fence: 1 })).toBe(false);
  expect(await store.seats.known([id, "s-none"])).toEqual([id]);
  expect(await store.seats.remove({ id, owner: "one", fence: 2 })).toBe(true);
  expect(await store.seats.known([id])).toEqual([]);
});

verifies("seats.adopted", "only what runs exactly that, by who has the app", async () => {
  const { wish } = await left();
  await signOfLife(store, "dead", -1);
  for (const other of [
    { workload: hash("other secrets") },
    { versionId: randomUUID() },
    { holder: { owner: "two", fence: 1 } },
    { holder: { owner: "one", fence: 0 } },
  ])
    expect(await store.seats.claim({ ...wish, ...other })).toBeNull();
  expect(await store.seats.claim(wish)).not.toBeNull();
});

test("one that left in order, or is known to be dead, is not waited for", async () => {
  const first = await left();
  expect(await store.seats.claim({ ...first.wish, dead: ["dead"], mayJudge: false })).not.toBeNull();
  const second = await left();
  await store.nodes.leave("dead");
  expect(await store.seats.claim({ ...second.wish, mayJudge: false })).not.toBeNull();
});

test("who shows another secret finds nothing", async () => {
  const { id } = await left();
  expect(await store.seats.find({ id, secretHash: hash("a guess") })).toBeNull();
  expect(await store.seats.find({ id: "s-none", secretHash: hash(id) })).toBeNull();
});

test("what nobody takes over is forgotten after a while, and not before", async () => {
  const { id, wish } = await left();
  await signOfLife(store, "dead", -1);
  await store.seats.removeDead();
  expect(await store.seats.known([id])).toEqual([id]);
  // Of one that was only away, nothing is remembered.
  await signOfLife(store, "dead", LEASE_MS);
  expect(await store.seats.removeDead()).toBe(0);
  await signOfLife(store, "dead", -1);
  expect(await store.seats.claim(wish)).toMatchObject({ id });
  await store.seats.removeDead();
  expect(await store.seats.known([id])).toEqual([id]);
});
