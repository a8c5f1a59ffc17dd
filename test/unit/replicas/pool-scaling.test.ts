import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { PoolByHand } from "./hand-pool.ts";

// By default a replica may use 2 processors and 4 GB.

/** Lets a second pass, and what was read in it arrive. */
async function second({ clock }: PoolByHand): Promise<void> {
  clock.advance(1_000);
  await setImmediate();
}

verifies(
  ["scaling.cpu", "scaling.hard-limits", "scaling.idle"],
  "processor time above the target starts another; an idle app has none, whatever its threads do",
  async () => {
    const site = await PoolByHand.open({
      maxReplicas: 3,
      replicaConcurrency: 10,
      scalingMetric: "cpu_utilization",
      scalingTarget: 50,
      evaluationIntervalSeconds: 10,
      cooldownSeconds: 60,
    });
    const made = site.submit();
    expect(site.seats.started).toHaveLength(1);
    const replica = await site.ready(0);
    replica.uses = { cpuMs: 5_000, residentBytes: 0 };
    const started: number[] = [];
    for (let seconds = 0; seconds <= 6; seconds++) {
      await second(site);
      started.push(site.seats.started.length);
      replica.uses = { cpuMs: replica.uses.cpuMs + 2_000, residentBytes: 0 };
    }
    // Both processors are busy from the first reading on: half the interval is the target.
    expect(started).toEqual([1, 1, 1, 1, 1, 1, 2]);
    await site.ready(1, 2);
    await site.answer(replica, made);
    site.clock.advance(59_000);
    await setImmediate();
    expect(site.pool.readyCount).toBe(2);
    site.clock.advance(1_000);
    expect(site.pool.readyCount).toBe(0);
  },
);

verifies(
  ["scaling.memory", "scaling.idle"],
  "memory above the target starts another, and an idle app has none, whatever it holds",
  async () => {
    const site = await PoolByHand.open({
      maxReplicas: 3,
      replicaConcurrency: 10,
      scalingMetric: "memory_utilization",
      scalingTarget: 50,
      evaluationIntervalSeconds: 10,
      cooldownSeconds: 60,
    });
    const made = site.submit();
    const replica = await site.ready(0);
    replica.uses = { cpuMs: 0, residentBytes: 2e9 };
    await second(site);
    expect(site.seats.started).toHaveLength(1);
    replica.uses = { cpuMs: 0, residentBytes: 3e9 };
    await second(site);
    expect(site.seats.started).toHaveLength(2);
    const other = await site.ready(1, 2);
    other.uses = { cpuMs: 0, residentBytes: 0.5e9 };
    for (let seconds = 0; seconds < 12; seconds++) await second(site);
    expect(site.seats.started).toHaveLength(2);
    await site.answer(replica, made);
    await until("all have stopped", () => {
      site.clock.advance(10_000);
      return site.pool.readyCount === 0;
    });
  },
);

test("no call makes anybody look at a replica, and none looks for the sake of concurrency", async () => {
  for (const [scalingMetric, looks] of [
    ["concurrency_utilization", 0],
    ["requests_per_second", 0],
    ["cpu_utilization", 1],
    ["memory_utilization", 1],
  ] as const) {
    const site = await PoolByHand.open({
      replicaConcurrency: 100,
      scalingMetric,
      evaluationIntervalSeconds: 10,
    });
    const first = site.submit();
    const replica = await site.ready(0);
    const others = site.submitAll(20);
    expect([scalingMetric, replica.usageLooks]).toEqual([scalingMetric, 0]);
    await second(site);
    for (const made of [first, ...others]) await site.answer(replica, made);
    expect([scalingMetric, replica.usageLooks]).toEqual([scalingMetric, looks]);
  }
});
