import { randomUUID } from "node:crypto";
import { describe, expect, onTestFinished, test } from "vitest";
import type { GpuKind } from "../../../src/model/gpu.ts";
import { MAX_PUBLISHED_GPUS } from "../../../src/model/node.ts";
import { openStore } from "../../../src/store/store.ts";
import { inspectDatabase } from "../../../src/store/upkeep/whole-database.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { sampleNode } from "../../support/sample-node.ts";
import { sampleStore } from "../../support/sample-store.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

verifies("nodes.doctor", "a look at the database finds the living nodes, and where they are", async () => {
  const database = await databases.fresh("postgres");
  const store = await openStore(database);
  onTestFinished(() => store.close());
  const { url, details } = await sampleNode(store, { name: "left" });
  const gone = await sampleNode(store, { name: "gone" });
  await store.nodes.renew({ ...gone, leaseMs: 0 });
  const { nodes } = await inspectDatabase(database, false);
  expect(nodes).toEqual([{ name: "left", url, home: details.home }]);
});

describe.each(DATABASE_KINDS)("on %s", (kind) => {
  const sample = sampleStore(databases, kind);

  test("a node is listed with what it said while its lease stands, and no longer", async () => {
    const { nodes } = sample.store();
    const { owner, url, details } = await sampleNode(sample.store(), { name: "left" });
    const listed = (await nodes.list()).living.find(({ id }) => id === owner);
    expect(listed).toEqual({ id: owner, url, details, isLeaving: false, leaseMs: expect.any(Number) });
    await nodes.renew({ owner, url, details, isLeaving: false, leaseMs: 0 });
    expect((await nodes.list()).living.map(({ id }) => id)).not.toContain(owner);
  });

  verifies("nodes.gpus", "what a node says of its GPUs counts only within bounds", async () => {
    const { nodes } = sample.store();
    const gpu = { model: "H100", memoryBytes: 80e9 };
    const told = async (gpus: unknown) => {
      const { owner } = await sampleNode(sample.store(), { gpus: gpus as GpuKind[] });
      return (await nodes.list()).living.find(({ id }) => id === owner)?.details.gpus;
    };
    expect(await told([gpu, { ...gpu, more: 1 }])).toEqual([gpu, gpu]);
    const many = Array.from({ length: MAX_PUBLISHED_GPUS + 1 }, () => gpu);
    for (const wrong of [many, [{ model: "H100" }], [{ ...gpu, model: "x".repeat(201) }], "H100", null])
      expect(await told(wrong)).toBeUndefined();
  });

  verifies(
    "nodes.drain",
    "what the operator asked for outlives renewals, until they take it back",
    async () => {
      const { nodes } = sample.store();
      const sign = await sampleNode(sample.store(), {});
      const isLeaving = async () =>
        (await nodes.list()).living.find(({ id }) => id === sign.owner)?.isLeaving;
      expect(await nodes.setLeaving({ id: sign.owner, isLeaving: true })).toBe(true);
      await nodes.renew(sign);
      expect(await isLeaving()).toBe(true);
      expect(await nodes.setLeaving({ id: sign.owner, isLeaving: false })).toBe(true);
      await nodes.renew(sign);
      expect(await isLeaving()).toBe(false);
      await nodes.renew({ ...sign, isLeaving: true });
      expect(await isLeaving()).toBe(true);
      await nodes.renew({ ...sign, leaseMs: 0 });
      expect(await nodes.setLeaving({ id: sign.owner, isLeaving: true })).toBe(false);
      expect(await nodes.setLeaving({ id: randomUUID(), isLeaving: true })).toBe(false);
    },
  );

  test("apps are counted by the node that has them", async () => {
    const { appOwners } = sample.store();
    const [one, two] = [await sampleNode(sample.store(), {}), await sampleNode(sample.store(), {})];
    const apps = [await sample.newApp(), await sample.newApp(), await sample.newApp()];
    const appNumbers = apps.map(({ number }) => number);
    await appOwners.take({ appNumbers: appNumbers.slice(0, 2), owner: one.owner, dead: [], mayJudge: true });
    await appOwners.take({ appNumbers, owner: two.owner, dead: [], mayJudge: true });
    const counts = await appOwners.counts();
    expect([counts.get(one.owner), counts.get(two.owner), counts.get("none")]).toEqual([2, 1, undefined]);
  });
});
