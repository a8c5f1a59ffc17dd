import { setImmediate as settled, setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { LEASE_MS, NodeLease, RENEW_MS } from "../../../src/nodes/lease.ts";
import {
  LoadingHost,
  MISSING,
  type OwnersNode,
  OwnersSite,
  STEP_MS,
} from "../../support/nodes/owners-site.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { createLog } from "../../../src/kit/log.ts";
import { AppError } from "../../../src/model/errors.ts";
import type { GpuKind } from "../../../src/model/gpu.ts";
import { winnerOf } from "../../../src/nodes/rendezvous.ts";
import { Owners, type OwnersParts } from "../../../src/nodes/owners.ts";
import { HandClock } from "../../support/clocks.ts";

/** Two nodes that know each other, each with its share of the apps. */
async function pairOf(appCount = 20): Promise<{ site: OwnersSite; one: OwnersNode; two: OwnersNode }> {
  const site = new OwnersSite(appCount);
  const one = await site.join("one");
  const two = await site.join("two");
  await site.pass(12_000);
  return { site, one, two };
}

function servers(site: OwnersSite, appNumber: number): string[] {
  return site.nodes.filter(({ host }) => host.served.has(appNumber)).map(({ id }) => id);
}

verifies(
  "nodes.unloadable",
  "an app that its node cannot load goes to one that can, and stays there",
  async () => {
    const { site, one, two } = await pairOf();
    const app = site.appOf(one);
    one.host.unloadable.add(app);
    // As if it had just come: the node has it, and has not loaded it.
    await one.host.letGo(app);
    await one.owners.lookAfter([app]);
    expect(site.world.owners.get(app)).toBe("one");
    expect(one.owners.whyUnserved(app)?.message).toBe(MISSING);
    // Callers come all the time, and do not put it off.
    for (let passed = 0; passed < 5_000; passed += STEP_MS) {
      await site.pass(STEP_MS);
      await one.owners.lookAfter([app]);
    }
    expect([site.world.owners.get(app), servers(site, app)]).toEqual(["two", ["two"]]);
    expect([one.owners.has(app), one.owners.whyUnserved(app)]).toEqual([false, null]);
    // It would belong to the first: it is not given back to a node that cannot load it.
    const { moved } = site.world;
    await site.pass(180_000);
    expect([site.world.owners.get(app), site.world.moved]).toEqual(["two", moved]);
    one.host.unloadable.delete(app);
    await site.pass(120_000);
    expect([site.world.owners.get(app), servers(site, app)]).toEqual(["one", ["one"]]);
    expect(two.owners.has(app)).toBe(false);
  },
);

verifies(
  "nodes.unloadable",
  "an app that nobody can load waits where it is, and is tried ever less often",
  async () => {
    const { site, one, two } = await pairOf();
    const app = site.appOf(one);
    for (const { host } of [one, two]) host.unloadable.add(app);
    await one.host.letGo(app);
    one.host.opened.length = 0;
    await one.owners.lookAfter([app]);
    const { moved } = site.world;
    await site.pass(600_000);
    expect([site.world.owners.get(app), site.world.moved]).toEqual(["one", moved]);
    expect(one.owners.whyUnserved(app)?.message).toBe(MISSING);
    const tries = one.host.opened.filter((opened) => opened === app).length;
    expect(tries).toBeGreaterThan(5);
    expect(tries).toBeLessThan(30);
    // Whoever calls does not have it tried each time.
    for (let calls = 0; calls < 100; calls += 1) await one.owners.lookAfter([app]);
    expect(one.host.opened.filter((opened) => opened === app).length).toBeLessThan(tries + 2);
    one.host.unloadable.delete(app);
    await site.pass(80_000);
    expect([servers(site, app), one.owners.whyUnserved(app)]).toEqual([["one"], null]);
  },
);

test("an app that is being changed is not given away, even if it cannot be loaded", async () => {
  const { site, one } = await pairOf();
  const app = site.appOf(one);
  one.host.unloadable.add(app);
  one.host.changing.add(app);
  await one.host.letGo(app);
  await one.owners.lookAfter([app]);
  await site.pass(30_000);
  expect(site.world.owners.get(app)).toBe("one");
  one.host.changing.delete(app);
  await site.pass(80_000);
  expect(site.world.owners.get(app)).toBe("two");
});

test("an app that went to another node while it was opened is not served here", async () => {
  const { site, one } = await pairOf();
  const app = site.appOf(one);
  const { promise, resolve } = Promise.withResolvers<void>();
  await one.host.letGo(app);
  one.host.gate = promise;
  const opening = one.owners.lookAfter([app]);
  await until("it is being opened", () => one.host.opened.at(-1) === app);
  const { fence } = one.owners.holderOf(app);
  const { appOwners } = site.world.store();
  await appOwners.handOver({ appNumber: app, fence, from: "one", to: "two" });
  await one.owners.sync();
  resolve();
  await opening;
  expect([one.owners.has(app), one.host.served.has(app)]).toEqual([false, false]);
});

test("a node learns what it has lost while it opens what has come", async () => {
  const { site, one, two } = await pairOf();
  const [lost, come] = [site.appOf(one), site.appOf(two)];
  const { appOwners } = site.world.store();
  const { promise, resolve } = Promise.withResolvers<void>();
  one.host.gate = promise;
  const of = (node: OwnersNode, appNumber: number) => ({ appNumber, ...node.owners.holderOf(appNumber) });
  await appOwners.handOver({ ...of(two, come), from: "two", to: "one" });
  void one.owners.sync();
  await until("it is being opened", () => one.host.opened.at(-1) === come);
  await appOwners.handOver({ ...of(one, lost), from: "one", to: "two" });
  await until("it is let go of", async () => {
    void one.owners.sync();
    await settled();
    return !one.owners.has(lost) && !one.host.served.has(lost);
  });
  resolve();
  await until("the other is served", () => one.host.served.has(come));
});

test("what others have is let go of before what has come is opened", async () => {
  const { site, one, two } = await pairOf();
  const [lost, come] = [site.appOf(one), site.appOf(two)];
  const { appOwners } = site.world.store();
  const { promise, resolve } = Promise.withResolvers<void>();
  one.host.gate = promise;
  const of = (node: OwnersNode, appNumber: number) => ({ appNumber, ...node.owners.holderOf(appNumber) });
  await appOwners.handOver({ ...of(one, lost), from: "one", to: "two" });
  await appOwners.handOver({ ...of(two, come), from: "two", to: "one" });
  const syncing = one.owners.sync();
  await until("it is being opened", () => one.host.opened.at(-1) === come);
  expect([one.owners.has(lost), one.host.served.has(lost)]).toEqual([false, false]);
  resolve();
  await syncing;
});

test("an app whose next node is there no more goes on where it is", async () => {
  const site = new OwnersSite(20);
  // As the database says it: the lease of the next node has passed since it got ready.
  site.around = (store) => ({
    ...store,
    appOwners: {
      ...store.appOwners,
      handOver: async (given) => (given.to === null ? await store.appOwners.handOver(given) : null),
    },
  });
  const one = await site.join("one");
  const letGo: number[] = [];
  one.host.letGo = async (appNumber) => void letGo.push(appNumber);
  await site.join("two");
  await site.pass(30_000);
  expect([one.host.served.size, letGo]).toEqual([20, []]);
});

test("a deploy that begins while the next node gets ready keeps the app", async () => {
  const site = new OwnersSite(20);
  const one = await site.join("one");
  site.onPrepare = (appNumber) => one.host.changing.add(appNumber);
  await site.join("two");
  await site.pass(30_000);
  expect([one.host.changing.size > 0, one.host.served.size]).toEqual([true, 20]);
  for (const app of one.host.changing) expect(await one.owners.takeNew(app)).toBe(true);
});

test("whoever begins something for an app that is being given away is told that it has moved", async () => {
  const site = new OwnersSite(20);
  const { promise, resolve } = Promise.withResolvers<void>();
  const given: number[] = [];
  site.around = (store) => ({
    ...store,
    appOwners: {
      ...store.appOwners,
      handOver: async (app) => {
        given.push(app.appNumber);
        await promise;
        return await store.appOwners.handOver(app);
      },
    },
  });
  const one = await site.join("one");
  await site.join("two");
  await site.pass(12_000);
  const [app] = given as [number];
  const begun = one.owners.takeNew(app);
  expect(one.owners.has(app)).toBe(true);
  resolve();
  expect(await begun).toBe(false);
  await until("it has gone", () => !one.owners.has(app));
});

test("a look through all apps that fails is done again soon", async () => {
  const site = new OwnersSite(20);
  let failures = 0;
  site.around = (store) => ({
    ...store,
    appOwners: {
      ...store.appOwners,
      ownerless: async (page) => {
        if ((failures += 1) <= 2) throw new Error("the database is away");
        return await store.appOwners.ownerless(page);
      },
    },
  });
  await expect(site.join("one")).rejects.toThrow("away");
  const [one] = site.nodes as [OwnersNode];
  void one.owners.review();
  await settled();
  await one.owners.review();
  expect(one.host.served.size).toBe(20);
});

verifies(
  "nodes.both-leave",
  "of two nodes that leave at once, neither is left with what the other gave it",
  async () => {
    const { site, one, two } = await pairOf();
    const three = await site.join("three");
    await site.pass(12_000);
    const app = site.appOf(one);
    // The second has decided to leave, and the first does not know it yet.
    await two.lease.startLeaving();
    const leaving = two.owners.leave();
    await site.pass(100);
    await leaving;
    const { appOwners } = site.world.store();
    const given = { appNumber: app, ...one.owners.holderOf(app), from: "one" };
    expect(await appOwners.handOver({ ...given, to: "two" })).toBeNull();
    await one.lease.startLeaving();
    await one.owners.leave();
    const owners = new Set(site.world.owners.values());
    expect([...owners]).toEqual(["three"]);
    expect(three.host.served.size).toBe(20);
  },
);

test("an app that was given to a node as it left is nobody's, and others take it", async () => {
  const { site, one, two } = await pairOf();
  const app = site.appOf(one);
  const { appOwners } = site.world.store();
  two.owners.stop();
  // Before anybody knows that it leaves.
  const leaving = two.owners.leave();
  await appOwners.handOver({ appNumber: app, ...one.owners.holderOf(app), from: "one", to: "two" });
  await two.owners.lookAfter([app]);
  await leaving;
  expect(site.world.owners.get(app)).not.toBe("two");
  await two.lease.startLeaving();
  await site.pass(10_000);
  expect(servers(site, app)).toContain("one");
});

test("one node does for all what one does, also while all of them leave", async () => {
  const { site, one, two } = await pairOf();
  const first = (): string[] => site.nodes.filter(({ owners }) => owners.isFirst).map(({ id }) => id);
  expect(first()).toHaveLength(1);
  for (const { lease } of [one, two]) await lease.startLeaving();
  await site.pass(2_000);
  expect(first()).toHaveLength(1);
});

verifies(
  "nodes.accept",
  "a node whose lease has passed takes no run for its own, nor of another's app",
  async () => {
    const { site, one, two } = await pairOf();
    const [own, other] = [site.appOf(one), site.appOf(two)];
    expect([one.owners.mayClaim(own), one.owners.mayClaim(other)]).toEqual([true, false]);
    // Frozen, and thawed before anything else was done.
    site.clock.advance(LEASE_MS + 1);
    expect(one.owners.mayClaim(own)).toBe(false);
    await site.pass(2 * STEP_MS);
    expect(one.owners.mayClaim(own)).toBe(true);
  },
);

const H100 = { model: "H100", memoryBytes: 80e9 };
const T4 = { model: "T4", memoryBytes: 16e9 };

/** Two nodes with those GPUs, and an app that would be the first one's but for the H100 that it asks for. */
async function withGpus(...gpus: readonly (readonly GpuKind[])[]) {
  const { site, one, two } = await pairOf();
  const app = site.appOf(one);
  const wishes = new Map([[app, { models: ["H100"], count: 1, memoryBytes: null }]]);
  for (const [i, { host }] of [one, two].entries()) {
    host.gpus = gpus[i] ?? [];
    host.wishes = wishes;
  }
  const placeOf = async () => (await site.world.store().appOwners.list([app]))[0]!;
  return { site, one, two, app, placeOf };
}

verifies("nodes.gpus", "an app goes to a node with the GPUs that it asks for, and stays there", async () => {
  const { site, one, two, app } = await withGpus([T4], [T4, H100]);
  await site.pass(10_000);
  expect([site.world.owners.get(app), servers(site, app)]).toEqual(["two", ["two"]]);
  const { moved } = site.world;
  await site.pass(180_000);
  expect([site.world.owners.get(app), site.world.moved]).toEqual(["two", moved]);
  // All other apps are where they would be without GPUs.
  const others = [...site.world.owners].filter(([number]) => number !== app);
  expect(others.every(([number, owner]) => winnerOf(number, one.roster.all)?.id === owner)).toBe(true);
  // When no node has them any more, it is an app like the others.
  two.host.gpus = [T4];
  await site.pass(20_000);
  expect(site.world.owners.get(app)).toBe("one");
});

verifies("nodes.gpus", "a caller waits until the app is where its GPUs are", async () => {
  const { site, one, app, placeOf } = await withGpus([], [H100]);
  one.host.changing.add(app);
  await site.pass(10_000);
  // While it is being changed it stays, and the caller looks again.
  expect([await one.owners.settle(await placeOf(), false), servers(site, app)]).toEqual([null, ["one"]]);
  one.host.changing.delete(app);
  const callers = [1, 2, 3].map(async () => await one.owners.settle(await placeOf(), false));
  expect(await Promise.all(callers)).toEqual([null, null, null]);
  expect([site.world.owners.get(app), servers(site, app)]).toEqual(["two", ["two"]]);
  expect(await one.owners.settle(await placeOf(), false)).toMatchObject({
    kind: "there",
    peer: { id: "two" },
  });
});

verifies(
  "nodes.gpus",
  "if the node with the GPUs cannot load the app, callers wait where it is",
  async () => {
    const { site, one, two, app, placeOf } = await withGpus([], [H100]);
    two.host.unloadable.add(app);
    await site.pass(10_000);
    expect(await one.owners.settle(await placeOf(), false)).toEqual({ kind: "here" });
    two.host.unloadable.delete(app);
    await site.pass(80_000);
    expect([site.world.owners.get(app), servers(site, app)]).toEqual(["two", ["two"]]);
  },
);

verifies("nodes.gpus", "a node that leaves gives such an app to another with its GPUs", async () => {
  const { site, one, two, app } = await withGpus([T4], [H100]);
  const host = new LoadingHost();
  Object.assign(host, { gpus: [H100], wishes: one.host.wishes });
  const three = await site.join("three", host);
  await site.pass(20_000);
  const [first, second] = site.world.owners.get(app) === "two" ? [two, three] : [three, two];
  const leave = async ({ lease, owners }: OwnersNode): Promise<void> => {
    await lease.startLeaving();
    await owners.leave();
    await site.pass(2_000);
  };
  await leave(first);
  expect([site.world.owners.get(app), servers(site, app)]).toEqual([second.id, [second.id]]);
  await leave(second);
  expect([site.world.owners.get(app), servers(site, app)]).toEqual(["one", ["one"]]);
});

/** A node whose database can be away, and has no apps. */
async function lonelyNode() {
  const clock = new HandClock();
  const database = { takesRenewals: true, answers: true };
  const whenever = <T>(isThere: () => boolean, answer: () => T) => {
    return async (): Promise<T> => {
      if (!isThere()) throw new AppError("storage_unavailable");
      return answer();
    };
  };
  const store = {
    nodes: {
      renew: whenever(
        () => database.takesRenewals,
        () => clock.now(),
      ),
    },
    appOwners: {
      owned: whenever(
        () => database.answers,
        () => [],
      ),
      ownerless: async () => [],
    },
  };
  const parts = { store, clock, log: createLog("silent") } as unknown as OwnersParts;
  const lease = new NodeLease({ ...parts, store: store as never, id: "a", self: null });
  const owners = new Owners({ ...parts, lease, roster: { takers: [] } as never, predecessors: [] });
  await lease.begin();
  lease.start();
  await owners.start();
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += RENEW_MS) {
      clock.advance(RENEW_MS);
      await setImmediate();
    }
  };
  return { database, lease, owners, pass };
}

verifies(
  "nodes.sure",
  "a node whose lease has passed is not ready again before it has asked which apps are its own",
  async () => {
    const { database, lease, owners, pass } = await lonelyNode();
    expect(owners.isSure).toBe(true);
    await pass(2 * LEASE_MS);
    expect(owners.isSure).toBe(true);
    database.takesRenewals = false;
    await pass(LEASE_MS);
    expect([lease.isHeld, owners.isSure]).toEqual([false, false]);
    database.takesRenewals = true;
    database.answers = false;
    await pass(LEASE_MS);
    expect([lease.isHeld, owners.isSure]).toEqual([true, false]);
    database.answers = true;
    await pass(RENEW_MS);
    expect(owners.isSure).toBe(true);
  },
);
