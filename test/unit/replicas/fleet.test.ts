import { setImmediate } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { FleetByHand, INIT_SECONDS } from "./fleet-by-hand.ts";
import { sampleScaling } from "./sample-scaling.ts";
import { CrashLoop, ReadyClock } from "../../../src/replicas/fleet.ts";

describe("how many there are", () => {
  verifies(
    ["lifecycle.scale-up", "lifecycle.min-replicas"],
    "min_replicas from the start, then as many as the calls need, up to max_replicas",
    async () => {
      const site = await FleetByHand.open({ minReplicas: 1, maxReplicas: 3 });
      expect(site.started).toBe(1);
      const counts = [1, 2, 3, 4, 50].map((calls) => {
        site.calls(calls);
        return site.started;
      });
      expect(counts).toEqual([1, 2, 3, 3, 3]);
      expect(site.counts.starts).toBe(3);
    },
  );

  verifies("lifecycle.scaling-buffer", "scaling_buffer more than that, at any load", async () => {
    const site = await FleetByHand.open({ scalingBuffer: 2, maxReplicas: 4 });
    expect(site.started).toBe(2);
    site.calls(1);
    expect(site.started).toBe(3);
    site.calls(9);
    expect(site.started).toBe(4);
  });

  verifies(
    ["lifecycle.cooldown", "lifecycle.min-replicas", "lifecycle.scale-to-zero"],
    "idle ones stop when their cooldown is over, the youngest first, and min_replicas stay for good",
    async () => {
      const site = await FleetByHand.open({ minReplicas: 1, maxReplicas: 3, cooldownSeconds: 30 });
      site.calls(3);
      await site.allReady(3);
      expect(site.counts.coldStarts).toBe(1);
      site.calls(0);
      site.clock.advance(29_999);
      expect(site.fleet.ready).toHaveLength(3);
      const [oldest] = site.fleet.ready;
      site.clock.advance(1);
      expect(site.fleet.ready).toEqual([oldest]);
      for (const place of [1, 2]) await site.seats.replica(place).hears("STOP");
      site.clock.advance(7 * 86_400_000);
      expect(site.fleet.ready).toEqual([oldest]);
      site.fleet.setScaling(sampleScaling({ minReplicas: 0, cooldownSeconds: 30 }));
      await site.seats.replica(0).hears("STOP");
      expect([site.fleet.ready, site.started]).toEqual([[], 3]);
    },
  );

  verifies(
    "servers.port-in-code",
    "where there is room for one, the next starts only when the last is gone",
    async () => {
      const site = await FleetByHand.open({ minReplicas: 1, maxReplicas: 3 }, true);
      await site.allReady(1);
      const [first] = site.fleet.ready;
      if (first) site.fleet.retire(first);
      await site.seats.replica(0).hears("STOP");
      site.calls(5);
      expect([site.fleet.ready, site.started]).toEqual([[], 1]);
      site.seats.replica(0).exit("exit code 0");
      await until("the next is started", () => site.started === 2);
    },
  );

  verifies("seats.leaving", "one whose place is about to end goes when another is there", async () => {
    const site = await FleetByHand.open({ minReplicas: 1, maxReplicas: 3 });
    await site.allReady(1);
    const [first] = site.fleet.ready;
    site.seats.replica(0).leave();
    await until("another is started", () => site.started === 2);
    expect(site.fleet.ready).toEqual([first]);
    await site.seats.replica(1).hello();
    await site.seats.replica(0).hears("STOP");
    expect(site.fleet.ready).toHaveLength(1);
    expect(site.fleet.ready).not.toContain(first);
    // Where none is wanted, none is waited for.
    site.fleet.setScaling(sampleScaling({ minReplicas: 0 }));
    site.seats.replica(1).leave();
    await site.seats.replica(1).hears("STOP");
    expect(site.started).toBe(2);
  });

  verifies(
    "seats.leaving.backoff",
    "places that end soon after each start are replaced ever later",
    async () => {
      const site = await FleetByHand.open({ minReplicas: 1, maxReplicas: 3 });
      await site.allReady(1);
      // One whose machine is drained at once: that costs no wait.
      await site.replaced(1);
      const [second] = site.fleet.ready;
      site.seats.replica(1).leave();
      await setImmediate();
      site.clock.advance(399);
      // It takes calls meanwhile.
      expect([site.started, site.fleet.ready]).toEqual([2, [second]]);
      site.clock.advance(201);
      expect(site.started).toBe(3);
      // One that takes no calls yet is not kept beside the next.
      site.seats.replica(2).leave();
      await until("it is ended", () => site.seats.replica(2).kills === 1);
      site.clock.advance(799);
      expect(site.started).toBe(3);
      site.clock.advance(401);
      await until("another is started", () => site.started === 4);
    },
  );

  verifies(
    "seats.leaving",
    "a place that ends after a while is replaced at once, again and again",
    async () => {
      const site = await FleetByHand.open({ minReplicas: 1, maxReplicas: 3 });
      await site.allReady(1);
      for (let count = 1; count < 5; count += 1) {
        site.settle();
        await site.replaced(count);
      }
    },
  );

  verifies("seats.leaving", "one in whose place nobody is wanted any more goes too", async () => {
    const site = await FleetByHand.open({ minReplicas: 2, maxReplicas: 3 });
    await site.allReady(2);
    site.settle();
    for (const place of [0, 1]) {
      site.seats.replica(place).leave();
      await until("another is started", () => site.started === place + 3);
    }
    site.fleet.setScaling(sampleScaling({ minReplicas: 1, maxReplicas: 3 }));
    await site.seats.replica(2).callHome();
    site.seats.replica(2).exit("exit code 1");
    await until("it is gone", () => site.exits.length === 1);
    await site.seats.replica(3).hello();
    await site.seats.replica(0).hears("STOP");
    site.fleet.scale();
    await site.seats.replica(1).hears("STOP");
  });

  verifies("servers.port-in-code", "none from when room is asked for until it is given back", async () => {
    const site = await FleetByHand.open({ minReplicas: 1, maxReplicas: 3 });
    await site.allReady(1);
    const vacated = site.fleet.vacate(new AbortController().signal);
    await site.seats.replica(0).hears("STOP");
    site.calls(5);
    expect([site.fleet.ready, site.started]).toEqual([[], 1]);
    site.seats.replica(0).exit("exit code 0");
    await vacated;
    site.calls(6);
    expect(site.started).toBe(1);
    site.fleet.occupy();
    expect(site.started).toBe(4);
    // Who asks for room gives up when told to.
    await site.fleet.vacate(AbortSignal.abort());
  });

  verifies(
    ["scaling.rate", "scaling.interval"],
    "calls per second are counted over the interval, and start a replica when they pass the target",
    async () => {
      for (const [evaluationIntervalSeconds, expected] of [
        [10, [1, 1, 1, 1, 2, 2]],
        [20, [1, 1, 1, 1, 1, 1]],
      ] as const) {
        const site = await FleetByHand.open({
          minReplicas: 1,
          replicaConcurrency: 100,
          scalingMetric: "requests_per_second",
          scalingTarget: 2,
          evaluationIntervalSeconds,
        });
        await site.allReady(1);
        const counts = Array.from({ length: 6 }, () => {
          site.demand = { calls: 0, arrivals: site.demand.arrivals + 5 };
          site.clock.advance(1_000);
          return site.started;
        });
        expect([evaluationIntervalSeconds, counts]).toEqual([evaluationIntervalSeconds, expected]);
      }
    },
  );

  verifies("scaling.idle", "the rate of earlier calls keeps no replica beyond its cooldown", async () => {
    const site = await FleetByHand.open({
      scalingMetric: "requests_per_second",
      scalingTarget: 1,
      evaluationIntervalSeconds: 300,
      cooldownSeconds: 60,
    });
    site.calls(1);
    await site.allReady(1);
    site.demand = { calls: 0, arrivals: 200 };
    site.clock.advance(59_999);
    expect(site.fleet.ready).toHaveLength(1);
    site.clock.advance(1);
    expect(site.fleet.ready).toEqual([]);
    site.clock.advance(120_000);
    expect(site.started).toBe(1);
  });

  test("one that ends slowly is not counted: another takes its place", async () => {
    const site = await FleetByHand.open({ maxReplicas: 1, cooldownSeconds: 0 });
    site.calls(1);
    await site.allReady(1);
    site.calls(0);
    await site.seats.replica(0).hears("STOP");
    site.calls(1);
    expect([site.started, site.fleet.replicas.size]).toEqual([2, 2]);
  });
});

describe("a replica that ends of its own accord", () => {
  test("is replaced at once the first time, then after gaps that double, 30 s at most", async () => {
    const site = await FleetByHand.open({ maxReplicas: 1 });
    site.calls(1);
    await site.dies();
    expect(site.started).toBe(2);
    // Each gap is spread by a fifth to both sides.
    for (const gapMs of [500, 1_000, 2_000, 4_000, 8_000, 16_000, 25_000, 25_000]) {
      const before = site.started;
      await site.dies();
      site.clock.advance(gapMs * 0.8 - 1);
      expect([gapMs, site.started]).toEqual([gapMs, before]);
      site.clock.advance(gapMs * 0.4 + 1);
      expect([gapMs, site.started]).toEqual([gapMs, before + 1]);
    }
    expect(site.counts.deaths).toBe(9);
  });

  test("costs no wait once another has answered a call", async () => {
    const site = await FleetByHand.open({ maxReplicas: 1 });
    site.calls(1);
    for (let death = 0; death < 4; death++) {
      await site.dies();
      expect([site.started, site.fleet.holdMs(site.clock.monotonic())]).toEqual([death + 2, 0]);
      site.fleet.noteHealth();
    }
  });

  test("before it was ready says why from the second time on: the first may be an accident", async () => {
    const site = await FleetByHand.open({ maxReplicas: 1 });
    site.calls(1);
    await site.dies();
    expect(site.failures).toEqual([]);
    await site.dies();
    expect(site.failures).toMatchObject([
      { message: "The app's process ended while it started (exit code 1)." },
    ]);
    // So that it is in the app's log, too.
    expect(site.told).toEqual([null, "The app's process ended while it started (exit code 1)."]);
  });

  test("with another one ready keeps nobody waiting, and is no failure to start", async () => {
    const site = await FleetByHand.open({ maxReplicas: 2 });
    site.calls(2);
    await site.seats.replica(0).hello();
    await until("one is ready", () => site.fleet.ready.length === 1);
    await site.dies();
    await site.dies();
    expect([site.failures, site.fleet.failure(site.clock.monotonic())]).toEqual([[], null]);
    expect(site.fleet.holdMs(site.clock.monotonic())).toBe(0);
  });
});

describe("a replica that is not ready in time", () => {
  test("is killed, and the app cannot start", async () => {
    const site = await FleetByHand.open({ maxReplicas: 1 });
    site.calls(1);
    await site.seats.replica(0).callHome();
    site.clock.advance(INIT_SECONDS * 1000 - 1);
    expect(site.seats.replica(0).kills).toBe(0);
    site.clock.advance(1);
    expect(site.seats.replica(0).kills).toBe(1);
    await until("it is gone", () => site.exits.length === 1);
    expect(site.failures).toMatchObject([
      {
        message: "main.py was not ready within deployment_initialization_timeout (60 s)",
        isTimeout: true,
      },
    ]);
    expect(site.fleet.failure(site.clock.monotonic())).toMatchObject({ failure: { isTimeout: true } });
  });

  test("has no deadline any more once it is", async () => {
    const site = await FleetByHand.open({ minReplicas: 1 });
    site.clock.advance(INIT_SECONDS * 1000 - 1);
    await site.allReady(1);
    site.clock.advance(86_400_000);
    expect([site.seats.replica(0).kills, site.fleet.ready.length]).toEqual([0, 1]);
  });
});

describe("a drain", () => {
  test("stops those that are ready, kills those that start, and starts no others", async () => {
    const site = await FleetByHand.open({ maxReplicas: 2, responseGracePeriodSeconds: 30 });
    site.calls(2);
    await site.seats.replica(0).hello();
    await site.seats.replica(1).callHome();
    await until("one is ready", () => site.fleet.ready.length === 1);
    let isOver = false;
    const drained = site.fleet.drain().then(() => (isOver = true));
    await site.seats.replica(0).hears("STOP");
    expect([0, 1].map((place) => site.seats.replica(place).kills)).toEqual([0, 1]);
    // What it holds has its own limit; a few seconds after that it is stuck.
    site.clock.advance(35_999);
    expect([isOver, site.seats.replica(0).kills]).toEqual([false, 0]);
    site.clock.advance(1);
    expect(site.seats.replica(0).kills).toBe(1);
    await drained;
    expect([site.started, site.counts.deaths]).toEqual([2, 0]);
    await until("it leaves no timer behind", () => site.clock.pending === 0);
  });
});

const failure = { message: "ImportError: x", traceback: "…" };

/** The waits after each of so many failures, each replica started when the one before allowed it. */
function waits(loop: CrashLoop, count: number): number[] {
  let now = 1_000;
  return Array.from({ length: count }, () => {
    const startedAt = now;
    now += 10;
    loop.record(startedAt, now, null);
    const waitMs = loop.waitMs(now);
    now += waitMs;
    return waitMs;
  });
}

test("the first crash costs no wait, the next ones wait twice as long each time, at most 30 s", () => {
  const gaps = waits(new CrashLoop(), 12);
  expect(gaps[0]).toBe(0);
  // Each is spread by a fifth to both sides.
  expect(gaps[1]).toBeGreaterThanOrEqual(400);
  expect(gaps[1]).toBeLessThanOrEqual(600);
  expect(gaps[3]).toBeGreaterThanOrEqual(1_600);
  expect(gaps[3]).toBeLessThanOrEqual(2_400);
  expect(Math.max(...gaps)).toBeLessThanOrEqual(30_000);
  expect(gaps.at(-1)).toBeGreaterThan(15_000);
});

test("an import that fails waits from the first time, and says why", () => {
  const loop = new CrashLoop();
  loop.record(0, 10, failure);
  expect(loop.waitMs(10)).toBeGreaterThan(0);
  expect(loop.initFailure).toBe(failure);
});

test("replicas that were there at the last failure count with it", () => {
  const loop = new CrashLoop();
  const alone = new CrashLoop();
  alone.record(0, 10, failure);
  for (let replica = 0; replica < 8; replica++) loop.record(replica, 10 + replica, failure);
  expect(loop.waitMs(10)).toBeLessThan(2 * alone.waitMs(10));
});

test("a call answered forgives everything", () => {
  const loop = new CrashLoop();
  waits(loop, 6);
  expect(loop.hasFailed).toBe(true);
  loop.forgive();
  expect(loop.hasFailed).toBe(false);
  expect(loop.waitMs(0)).toBe(0);
  loop.record(100_000, 100_010, null);
  expect(loop.waitMs(100_010)).toBe(0);
});

test("the wait runs out with time", () => {
  const loop = new CrashLoop();
  loop.record(0, 0, failure);
  const waitMs = loop.waitMs(0);
  expect(loop.waitMs(waitMs - 1)).toBe(1);
  expect(loop.waitMs(waitMs)).toBe(0);
  expect(loop.waitMs(waitMs + 100)).toBe(0);
});

test("it counts only while a replica is ready", () => {
  const clock = new ReadyClock();
  expect(clock.elapsed(1_000)).toBe(0);
  clock.set(true, 1_000);
  expect(clock.elapsed(1_250)).toBe(250);
  clock.set(false, 1_300);
  expect(clock.elapsed(9_000)).toBe(300);
  clock.set(true, 10_000);
  expect(clock.elapsed(10_001)).toBe(301);
});

test("being told the same again changes nothing", () => {
  const clock = new ReadyClock();
  clock.set(false, 500);
  clock.set(true, 1_000);
  clock.set(true, 2_000);
  expect(clock.elapsed(3_000)).toBe(2_000);
  clock.set(false, 3_000);
  clock.set(false, 4_000);
  expect(clock.elapsed(5_000)).toBe(2_000);
});
