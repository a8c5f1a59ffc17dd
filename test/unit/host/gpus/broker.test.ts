import { expect, test } from "vitest";
import type { Claim } from "../../../../src/host/gpus/broker.ts";
import { matches as namesMatch } from "../../../../src/host/gpus/source.ts";
import { site, uuidsOf } from "../../../support/gpus/broker-site.ts";
import { GB, madeGpu, quiet, wishFor } from "../../../support/gpus/played-gpus.ts";
import { verifies } from "../../../verifies.ts";

verifies("gpu.grant.whole", "a wish waits until all its GPUs are free at once", async () => {
  const { app, end } = site([madeGpu(0), madeGpu(1)]);
  const [one, two] = [app("one"), app("two")];
  const first = one.start(wishFor(null));
  const both = two.start(wishFor(null, ["H100"], 2));
  await quiet();
  expect(uuidsOf(first)).toEqual(["GPU-0"]);
  expect(both.grant).toBeNull();
  await end(first);
  expect(uuidsOf(both)).toEqual(["GPU-0", "GPU-1"]);
});

verifies("gpu.grant.models", "the first model that can serve it, and GPUs of one model alone", async () => {
  const { app, broker } = site([madeGpu(0, { model: "L4" }), madeGpu(1), madeGpu(2)]);
  const one = app("one");
  const preferred = one.start(wishFor(null, ["H200", "H100", "L4"]));
  const second = one.start(wishFor(null, ["H100", "L4"]));
  const third = one.start(wishFor(null, ["H100", "L4"]));
  const mixed = one.start(wishFor(null, ["ANY"], 2));
  await quiet();
  expect([preferred, second, third].map(uuidsOf)).toEqual([["GPU-1"], ["GPU-2"], ["GPU-0"]]);
  expect(mixed.grant).toBeNull();
  expect(broker.never(wishFor(null, ["ANY"], 3))).toBe(
    "3 GPUs of one model are wanted, this machine has 2 of any model",
  );
});

verifies(
  "gpu.grant.models",
  "a list may prefer some of a model's GPUs and take the others as well",
  async () => {
    const half = { model: "A100", memoryBytes: 40 * GB };
    const { app, broker } = site(
      [madeGpu(0, half), madeGpu(1, { model: "A100" }), madeGpu(2, half), madeGpu(3, { model: "A100" })],
      { matches: namesMatch },
    );
    const one = app("one");
    const start = (models: readonly string[], count = 1) => one.start(wishFor(null, models, count));
    const replicas = [
      start(["A100_80GB", "A100"]),
      start(["A100_40GB", "A100"]),
      start(["A100_80GB", "A100"], 2),
    ];
    await quiet();
    expect(replicas.map(uuidsOf)).toEqual([["GPU-1"], ["GPU-0"], ["GPU-2", "GPU-3"]]);
    const never = broker.never(wishFor(null, ["A100_80GB", "A100_40GB", "A100"], 4));
    expect([never, broker.never(wishFor(null, ["A100_80GB"], 3))]).toEqual([
      null,
      "3 GPUs of one model are wanted, this machine has 2 of A100_80GB",
    ]);
  },
);

verifies("gpu.grant.fault", "a GPU out of service is granted again once it works", async () => {
  const sick = madeGpu(0, { fault: "it fell off the bus" });
  const { app, source, end } = site([sick]);
  const one = app("one");
  const replica = one.start(wishFor(null));
  await quiet();
  expect(replica.grant).toBeNull();
  expect(replica.claim.obstacle()).toBe(
    "GPUs: 1 of any model is wanted, none is free; GPU 0 is out of service",
  );
  source.change([madeGpu(0)]);
  await quiet();
  expect(uuidsOf(replica)).toEqual(["GPU-0"]);
  // It fails while it is granted, vanishes, and comes back.
  source.change([]);
  const next = one.start(wishFor(null));
  await quiet();
  source.change([madeGpu(0)]);
  await quiet();
  expect(next.grant).toBeNull();
  await end(replica);
  expect(uuidsOf(next)).toEqual(["GPU-0"]);
});

verifies(
  "gpu.share.fit",
  "shares go to the fullest GPU with room, so that whole GPUs stay free",
  async () => {
    const { app } = site([madeGpu(0), madeGpu(1)]);
    const one = app("one");
    const replicas = [20, 20, 20, 20].map((gb) => one.start(wishFor(gb)));
    const whole = app("two").start(wishFor(null));
    await quiet();
    expect(replicas.map(uuidsOf)).toEqual(Array.from({ length: 4 }, () => ["GPU-0"]));
    expect(uuidsOf(whole)).toEqual(["GPU-1"]);
  },
);

verifies("gpu.share.projects", "projects share a GPU only if the operator allows it", async () => {
  for (const sharesAcrossProjects of [false, true]) {
    const { app } = site([madeGpu(0)], { sharesAcrossProjects });
    app("one", "p-one").start(wishFor(20));
    const other = app("two", "p-two").start(wishFor(20));
    const sibling = app("three", "p-one").start(wishFor(20, ["H200", "H100"]));
    await quiet();
    expect(other.grant !== null).toBe(sharesAcrossProjects);
    // It does not overtake the other on the only GPU.
    expect(sibling.grant !== null).toBe(sharesAcrossProjects);
    if (!sharesAcrossProjects)
      expect(other.claim.obstacle()).toBe(
        "GPU memory: 20 GB of any model are wanted, 0 GB are free; an app of another project is in use",
      );
  }
});

verifies("gpu.order", "a later wish overtakes only where an earlier one needs nothing", async () => {
  const { app, end } = site([madeGpu(0), madeGpu(1), madeGpu(2, { model: "L4" })]);
  const busy = app("busy").start(wishFor(60, ["H100"]));
  const large = app("large").start(wishFor(null, ["H100"], 2));
  const small = app("small").start(wishFor(10, ["H100"]));
  const elsewhere = app("small").start(wishFor(10, ["L4"]));
  await quiet();
  expect([large.grant, small.grant]).toEqual([null, null]);
  expect(uuidsOf(elsewhere)).toEqual(["GPU-2"]);
  expect(small.claim.obstacle()).toBe(
    "GPU memory: 10 GB of H100 are wanted, that much is free; app large waits before it",
  );
  await end(busy);
  expect(uuidsOf(large)).toEqual(["GPU-0", "GPU-1"]);
  large.claim.cancel();
  expect(large.grant).not.toBeNull();
});

test("a wish that is given up lets those behind it pass", async () => {
  const { app, broker } = site();
  app("busy").start(wishFor(60));
  const large = app("large").start(wishFor(60));
  const small = app("small").start(wishFor(10));
  await quiet();
  expect(small.grant).toBeNull();
  large.claim.cancel();
  await quiet();
  expect(await large.claim.granted).toBeNull();
  expect(uuidsOf(small)).toEqual(["GPU-0"]);
  expect(broker.use().map(({ app, memoryBytes }) => [app, memoryBytes])).toEqual([
    ["busy", 60 * GB],
    ["small", 10 * GB],
  ]);
});

verifies("gpu.evict.idle", "the longest idle are evicted, and no more than needed", async () => {
  const { app, clock, source } = site();
  const tenants = ["a", "b", "c", "d"].map((name) => app(name));
  const replicas = tenants.map((tenant) => tenant.start(wishFor(20)));
  await quiet();
  for (const replica of [replicas[2]!, replicas[0]!, replicas[3]!]) {
    clock.advance(1_000);
    replica.tenant.becomesIdle(replica);
  }
  const wish = app("new").start(wishFor(20));
  await quiet();
  expect(tenants.map(({ evictedFor }) => evictedFor)).toEqual([[], [], ["new"], []]);
  expect(wish.grant).toBeNull();
  expect(wish.claim.obstacle()).toContain("app c is being stopped");
  tenants[2]!.ends(replicas[2]!, source);
  await quiet();
  expect(uuidsOf(wish)).toEqual(["GPU-0"]);
  const large = app("large").start(wishFor(40));
  await quiet();
  expect(tenants.map(({ evictedFor }) => evictedFor.length)).toEqual([1, 0, 1, 1]);
  expect(large.grant).toBeNull();
});

verifies("gpu.evict.never", "never a busy one, one of the minimum, or one of the same app", async () => {
  const { app, pass } = site();
  const kept = app("kept");
  kept.minimum = 1;
  const first = kept.start(wishFor(40));
  const busy = app("busy").start(wishFor(40));
  await quiet();
  kept.becomesIdle(first);
  const more = kept.start(wishFor(40));
  const other = app("other").start(wishFor(40));
  await pass(20_000);
  expect([more.grant, other.grant]).toEqual([null, null]);
  expect(other.claim.obstacle()).toBe(
    "GPU memory: 40 GB of any model are wanted, 0 GB are free; app kept is kept by min_replicas, app busy is in use, app kept waits before it",
  );
  more.claim.cancel();
  kept.minimum = 0;
  await pass(1_000);
  expect(kept.evictedFor).toEqual(["other"]);
  expect(busy.state).toBe("running");
});

verifies("gpu.evict.hold", "an app that was just started is not evicted, and looked at in time", async () => {
  const { app, clock } = site([madeGpu(0)], { holdMs: 10_000 });
  const one = app("one");
  const replica = one.start(wishFor(60));
  await quiet();
  one.becomesIdle(replica);
  const other = app("two").start(wishFor(60));
  await quiet();
  expect(other.claim.obstacle()).toContain("app one is just started");
  for (let ms = 0; ms < 9_999; ms += 101) {
    clock.advance(101);
    await quiet();
    expect(one.evictedFor).toEqual(clock.elapsedMs < 10_000 ? [] : ["two"]);
  }
  clock.advance(10_000 - Math.min(10_000, clock.elapsedMs));
  await quiet();
  expect(one.evictedFor).toEqual(["two"]);
});

verifies("gpu.evict.race", "one that gets a call before it is evicted stays, and another goes", async () => {
  const { app, broker, pass } = site();
  const [one, two] = [app("one"), app("two")];
  const [first, second] = [one.start(wishFor(40)), two.start(wishFor(40))];
  await quiet();
  one.becomesIdle(first);
  two.becomesIdle(second);
  one.onEvict = () => (first.idleSinceMs = null);
  const wish = app("new").start(wishFor(40));
  await quiet();
  expect([one.evictedFor, two.evictedFor]).toEqual([[], []]);
  expect(wish.grant).toBeNull();
  await pass(2_000);
  expect([one.evictedFor, two.evictedFor]).toEqual([[], ["new"]]);
  expect(broker.evictions().map(({ evicted }) => evicted.app)).toEqual(["two"]);
});

test("what is evicted for an app is not taken by an earlier wish of the app that had it", async () => {
  const { app, source, pass } = site();
  const one = app("one");
  const [first, second] = [one.start(wishFor(40)), one.start(wishFor(40))];
  await quiet();
  one.start(wishFor(40));
  one.becomesIdle(first);
  one.becomesIdle(second);
  const two = app("two").start(wishFor(40));
  await pass(1_000);
  one.ends(first, source);
  await pass(3_000);
  expect([one.evictedFor, two.state, one.in("running").length]).toEqual([["two"], "running", 1]);
});

test("what an eviction makes busy is not evicted with it", async () => {
  const { app } = site();
  const [one, two] = [app("one"), app("two")];
  const [first, second] = [one.start(wishFor(40)), two.start(wishFor(40))];
  await quiet();
  one.becomesIdle(first);
  two.becomesIdle(second);
  one.onEvict = () => (second.idleSinceMs = null);
  app("new").start(wishFor(null));
  await quiet();
  expect([one.evictedFor, two.evictedFor]).toEqual([["new"], []]);
});

verifies(
  "gpu.measured",
  "what others use, and what replicas have not taken yet, is not granted",
  async () => {
    const { app, source, pass } = site();
    const one = app("one");
    const first = one.start(wishFor(30));
    await quiet();
    source.hold("GPU-0", first.pid, 10 * GB);
    source.hold("GPU-0", 7, 25 * GB);
    source.see();
    const fits = one.start(wishFor(20));
    const tooMuch = one.start(wishFor(10));
    await pass(3_000);
    expect(fits.grant).not.toBeNull();
    expect(tooMuch.claim.obstacle()).toBe(
      "GPU memory: 10 GB of any model are wanted, 5 GB are free; app one is in use, 25 GB are used outside Millrace",
    );
    source.hold("GPU-0", 7, 15 * GB);
    await pass(3_000);
    expect(tooMuch.grant).not.toBeNull();
  },
);

verifies("gpu.measured", "what the processes of a replica have started counts as its own", async () => {
  const { app, source, pass } = site();
  const [one, two] = [app("one"), app("two")];
  const server = one.start(wishFor(40));
  await quiet();
  // A server whose second child computes, and has lost its parent later.
  source.parents.set(51, server.pid).set(52, 51);
  source.hold("GPU-0", 52, 38 * GB);
  source.see();
  const beside = two.start(wishFor(30));
  await pass(3_000);
  expect(beside.grant).not.toBeNull();
  source.parents.set(52, 1);
  const third = two.start(wishFor(10));
  await pass(3_000);
  expect(third.grant).not.toBeNull();
});

verifies("gpu.use", "nothing is told of processes whose ids mean nothing on this machine", async () => {
  const { app, source, broker, pass } = site();
  const first = app("one").start(wishFor(40));
  await quiet();
  // The driver counts processes of the host, and the service lives in a container.
  source.unknown.add(4_711);
  source.hold("GPU-0", 4_711, 38 * GB);
  source.see();
  const beside = app("two").start(wishFor(30));
  await pass(3_000);
  expect(broker.use().map(({ usedBytes }) => usedBytes)).toEqual([null, null]);
  expect([first, beside].map(uuidsOf)).toEqual([["GPU-0"], ["GPU-0"]]);
});

verifies("gpu.measured.whole", "a whole GPU needs nine tenths of its memory free", async () => {
  const { app, source, pass } = site();
  source.hold("GPU-0", 7, 9 * GB);
  source.see();
  const whole = app("one").start(wishFor(null));
  await pass(3_000);
  expect(whole.grant).toBeNull();
  source.hold("GPU-0", 7, 8 * GB);
  await pass(3_000);
  expect(whole.grant).not.toBeNull();
});

verifies("gpu.use", "use is told per grant, and unknown where processes cannot be told apart", async () => {
  const { app, source, broker } = site();
  const one = app("one");
  const replica = one.start(wishFor(30));
  await quiet();
  source.hold("GPU-0", replica.pid, 10 * GB);
  for (const [knows, usedBytes] of [
    ["everything", 10 * GB],
    ["memory", null],
  ] as const) {
    source.knows = knows;
    source.see();
    expect(broker.use()).toEqual([
      {
        gpu: "GPU-0",
        app: "one",
        projectId: "p-one",
        replicaId: `replica-${replica.pid}`,
        memoryBytes: 30 * GB,
        usedBytes,
      },
    ]);
  }
});

verifies("gpu.excess", "a replica far above its share is told of once, while others wait", async () => {
  const told: Claim[] = [];
  const { app, source, pass } = site([madeGpu(0)], { onExcess: (claim) => told.push(claim) });
  const [one, two] = [app("one"), app("two")];
  const [honest, greedy] = [one.start(wishFor(30)), two.start(wishFor(30))];
  await quiet();
  source.hold("GPU-0", honest.pid, 32 * GB);
  source.hold("GPU-0", greedy.pid, 34 * GB);
  source.see();
  await pass(3_000);
  expect(told).toEqual([]);
  const waits = app("three").start(wishFor(20));
  await pass(3_000);
  expect(told).toEqual([greedy.claim]);
  expect(waits.grant).toBeNull();
});

verifies("gpu.never", "what no GPU of the machine will serve is said at once, in plain words", () => {
  const { broker } = site([madeGpu(0), madeGpu(1, { model: "L4", memoryBytes: 24 * GB })]);
  expect(broker.never(wishFor(null, ["H200"]))).toBe("this machine has no GPU of H200, only H100, L4");
  expect(broker.never(wishFor(30, ["L4"]))).toBe(
    "30 GB of one GPU are wanted, the largest of L4 here has 24 GB",
  );
  expect(broker.never(wishFor(30, ["ANY"], 2))).toBe(
    "2 GPUs of one model are wanted, this machine has 1 of any model",
  );
  expect(broker.never(wishFor(30, ["L4", "H100"]))).toBeNull();
  expect(site([]).broker.never(wishFor(null))).toBe("this machine has no GPU");
});

verifies("gpu.minimums", "minimums that cannot all fit are named, the last ones first", () => {
  const { broker } = site([madeGpu(0), madeGpu(1)]);
  const minimum = (app: string, gb: number | null, replicas = 1, projectId = "p-one") => {
    return { app, projectId, wish: wishFor(gb), replicas };
  };
  const without = (...minimums: ReturnType<typeof minimum>[]) => broker.fits(minimums).map(({ app }) => app);
  expect(without(minimum("a", 30, 2), minimum("b", 50, 2))).toEqual([]);
  expect(without(minimum("a", 40, 3), minimum("b", null))).toEqual(["b"]);
  expect(without(minimum("a", 40), minimum("b", 40, 1, "p-two"), minimum("c", 40, 1, "p-three"))).toEqual([
    "c",
  ]);
  expect(without(minimum("a", 0), minimum("b", null, 3))).toEqual(["b"]);
  // In this order the fullest GPU is not the right one.
  expect(without(minimum("a", 20), minimum("b", 20), minimum("c", 60), minimum("d", 60))).toEqual([]);
});

test("the end of the broker gives up what waits, and leaves no timer or listener", async () => {
  const { app, broker, source, clock } = site();
  app("one").start(wishFor(60));
  const waits = app("two").start(wishFor(60));
  await quiet();
  broker.close();
  await quiet();
  expect(await waits.claim.granted).toBeNull();
  expect(await app("three").start(wishFor(1)).claim.granted).toBeNull();
  expect([source.listeners, clock.pending]).toEqual([0, 0]);
});
