import { setImmediate } from "node:timers/promises";
import { expect } from "vitest";
import type { InitFailure } from "../../../src/engines/engine.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { FleetByHand, INIT_SECONDS } from "./fleet-by-hand.ts";
import { PoolByHand } from "./hand-pool.ts";
import { sampleScaling } from "./sample-scaling.ts";

verifies(
  "gpu.waiting",
  "a start that waits for a GPU has all of its initialization timeout when it has one",
  async () => {
    const site = await FleetByHand.open();
    const gpu = Promise.withResolvers<void>();
    site.seats.gpu = gpu.promise;
    site.calls(1);
    site.clock.advance(10 * INIT_SECONDS * 1000);
    expect([site.fleet.gpuObstacle(), site.seats.replica(0).kills]).toEqual(["H100 is in use", 0]);
    gpu.resolve();
    await until("it has its GPU", () => site.fleet.gpuObstacle() === null);
    site.clock.advance(INIT_SECONDS * 1000 - 1);
    expect(site.seats.replica(0).kills).toBe(0);
    site.clock.advance(1);
    expect(site.seats.replica(0).kills).toBe(1);
  },
);

verifies("gpu.queue", "a start that waits for a GPU is given up when no call needs it", async () => {
  const site = await FleetByHand.open({ minReplicas: 1, cooldownSeconds: 30 });
  await site.allReady(1);
  site.seats.gpu = new Promise(() => {});
  site.calls(3);
  expect(site.started).toBe(3);
  site.calls(1);
  expect([0, 1, 2].map((place) => site.seats.replica(place).kills)).toEqual([0, 1, 1]);
  await until("they are gone", () => {
    site.clock.advance(100); // The last words of a replica that never called are waited for in vain.
    return site.fleet.replicas.size === 1;
  });
  expect(site.fleet.ready).toHaveLength(1);
});

verifies(
  "gpu.close",
  "a replica that is to be replaced goes if its replacement waits for a GPU",
  async () => {
    const site = await FleetByHand.open({ minReplicas: 1, maxReplicas: 1 });
    await site.allReady(1);
    const gpu = Promise.withResolvers<void>();
    site.seats.gpu = gpu.promise;
    site.seats.replica(0).leave();
    await site.seats.replica(0).hears("STOP");
    expect([site.started, site.fleet.gpuObstacle()]).toEqual([2, "H100 is in use"]);
    site.seats.replica(0).exit();
    gpu.resolve();
    await site.seats.replica(1).hello();
    await until("the next is ready", () => site.fleet.ready.length === 1);
    expect(site.started).toBe(2);
  },
);

verifies("gpu.queue", "the end of a start that was given up takes no replica with it", async () => {
  const site = await FleetByHand.open({ minReplicas: 1, cooldownSeconds: 1 });
  await site.allReady(1);
  const gpu = Promise.withResolvers<void>();
  site.seats.gpu = gpu.promise;
  site.calls(2);
  site.clock.advance(1_000);
  site.calls(0);
  expect(site.seats.replica(1).kills).toBe(1);
  // Its wait is over at once, its end is noticed later.
  gpu.resolve();
  await gpu.promise;
  site.calls(0);
  expect([site.fleet.replicas.size, site.fleet.ready.length]).toEqual([2, 1]);
});

verifies("gpu.evicted", "only replicas beyond what calls and min_replicas need are idle", async () => {
  const site = await FleetByHand.open({ minReplicas: 1, maxReplicas: 3, cooldownSeconds: 30 });
  site.calls(3);
  await site.allReady(3);
  expect(site.fleet.idle()).toEqual([]);
  site.demand = { calls: 2, arrivals: 3 };
  const [one] = site.fleet.idle();
  expect(site.fleet.idle()).toHaveLength(1);
  site.demand = { calls: 0, arrivals: 3 };
  expect([site.fleet.idle().length, site.fleet.minReplicas]).toEqual([2, 1]);
  // A call came between the decision and the act.
  site.demand = { calls: 3, arrivals: 6 };
  expect(site.fleet.evict(one?.id ?? "", "app chat")).toBe(false);
  expect(site.fleet.ready).toHaveLength(3);
  site.demand = { calls: 0, arrivals: 6 };
  const replica = site.fleet.ready.find(({ id }) => id === one?.id);
  expect(site.fleet.evict(one?.id ?? "", "app chat")).toBe(true);
  expect(replica && site.fleet.stopReason(replica)).toBe("evicted for app chat");
  expect(site.fleet.ready).toHaveLength(2);
  const stopped = () => site.seats.started.find(({ told }) => told.includes("STOP 0"));
  await until("it is told to stop", () => stopped() !== undefined);
  stopped()?.exit();
  await until("it is gone", () => site.exits.length === 1);
  expect([site.exits, site.counts.deaths]).toEqual([["evicted for app chat"], 0]);
});

verifies("gpu.queue", "a call waits for a GPU as long as for a busy replica, then learns why", async () => {
  const site = await PoolByHand.open({ maxQueueSeconds: 10 });
  site.seats.gpu = new Promise(() => {});
  const made = site.submit();
  const others = Array.from({ length: 20 }, () => site.submit());
  site.clock.advance(9_000);
  expect(made.outcome).toBeNull();
  site.clock.advance(1_010);
  expect(made.outcome).toMatchObject({
    kind: "refused",
    code: "no_gpu_free",
    message: "The call waited too long for a GPU: H100 is in use.",
  });
  expect(others.map(({ outcome }) => outcome?.kind)).toEqual(others.map(() => "refused"));
  // It takes long to find out.
  expect(site.replica(0).obstacleLooks).toBe(1);
  expect(site.replica(0).kills).toBe(1);
});

verifies("gpu.queue", "a start that waits for a GPU ends with its caller", async () => {
  const site = await PoolByHand.open();
  site.seats.gpu = new Promise(() => {});
  const made = site.submit();
  site.pool.slots.abandon(made.call, { kind: "cancelled" });
  expect(site.replica(0).kills).toBe(1);
});

verifies(
  "gpu.queue",
  "an app that gets GPUs for some of its replicas is not waited for without end",
  async () => {
    const scaling = { minReplicas: 1, maxReplicas: 2, maxQueueSeconds: 10 };
    const site = await PoolByHand.open(scaling);
    await site.ready(0);
    site.seats.gpu = new Promise(() => {});
    site.pool.slots.setScaling(sampleScaling({ ...scaling, minReplicas: 2 }));
    let failure: InitFailure | null | undefined;
    void site.pool.started(2, new AbortController().signal).then((found) => (failure = found));
    site.clock.advance(9_999);
    await setImmediate();
    expect([failure, site.pool.replicas.size]).toEqual([undefined, 2]);
    site.clock.advance(1);
    await until("one is enough", () => failure !== undefined);
    expect([failure, site.pool.readyCount]).toEqual([null, 1]);
  },
);
