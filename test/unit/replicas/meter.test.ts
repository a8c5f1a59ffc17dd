import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Usage } from "../../../src/engines/engine.ts";
import { Meter, Window } from "../../../src/replicas/meter.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";
import { sampleScaling } from "./sample-scaling.ts";

/** A replica of which a test decides what it uses, and when that is known. */
class Metered {
  uses: Usage | null = { cpuMs: 0, residentBytes: 0 };
  looks = 0;
  /** Until this is over nobody knows. */
  isRead: Promise<void> = Promise.resolve();

  async usage(): Promise<Usage | null> {
    this.looks += 1;
    await this.isRead;
    return this.uses;
  }
}

function meterOf(scalingMetric: "cpu_utilization" | "memory_utilization" | "concurrency_utilization") {
  const clock = new HandClock();
  const site = { ready: [] as Metered[], measured: 0 };
  const scaling = sampleScaling({ scalingMetric, evaluationIntervalSeconds: 20 });
  const meter = new Meter<Metered>(scaling, { cpu: 0.5, memoryGb: 2 }, clock, {
    ready: () => site.ready,
    arrivals: () => 0,
    onMeasured: () => void (site.measured += 1),
    onError: (error) => {
      throw error;
    },
  });
  /** Lets so much time pass, and what was read arrive. */
  const pass = async (ms: number): Promise<void> => {
    clock.advance(ms);
    await setImmediate();
  };
  return { clock, site, scaling, meter, pass };
}

verifies(
  ["scaling.cpu", "scaling.interval"],
  "processor time is a share of the allowance over the whole interval, for a young replica too",
  async () => {
    const { site, meter, pass } = meterOf("cpu_utilization");
    const [old, young] = [new Metered(), new Metered()];
    old.uses = { cpuMs: 70_000, residentBytes: 0 };
    site.ready = [old];
    meter.start();
    await pass(2_000);
    // What it used before, to import the app, is not counted.
    expect([site.measured, meter.usedPercent(old)]).toEqual([1, 0]);
    for (let reading = 1; reading <= 10; reading++) {
      old.uses = { cpuMs: 70_000 + reading * 500, residentBytes: 0 };
      await pass(2_000);
      // 250 ms a second of the 500 that it may use.
      expect(meter.usedPercent(old)).toBeCloseTo(reading * 5, 6);
    }
    site.ready = [old, young];
    await pass(2_000);
    young.uses = { cpuMs: 1_000, residentBytes: 0 };
    await pass(2_000);
    expect(meter.usedPercent(young)).toBeCloseTo(10, 6);
    // The old one has done nothing for two readings of ten.
    expect(meter.usedPercent(old)).toBeCloseTo(40, 6);
    await pass(20_000);
    meter.stop();
  },
);

verifies(
  "scaling.memory",
  "memory is a share of the allowance, the mean of the interval's readings",
  async () => {
    const { site, meter, pass } = meterOf("memory_utilization");
    const replica = new Metered();
    site.ready = [replica];
    meter.start();
    replica.uses = { cpuMs: 1e9, residentBytes: 1e9 };
    await pass(2_000);
    expect(meter.usedPercent(replica)).toBeCloseTo(50, 6);
    replica.uses = { cpuMs: 1e9, residentBytes: 2e9 };
    await pass(2_000);
    expect(meter.usedPercent(replica)).toBeCloseTo(75, 6);
    for (let reading = 0; reading < 10; reading++) await pass(2_000);
    expect(meter.usedPercent(replica)).toBeCloseTo(100, 6);
    meter.stop();
  },
);

test("nobody looks while the metric is concurrency, nor after another change to it", async () => {
  const { clock, site, scaling, meter, pass } = meterOf("concurrency_utilization");
  const replica = new Metered();
  site.ready = [replica];
  meter.start();
  expect([clock.pending, meter.isRunning]).toEqual([0, false]);
  meter.setScaling({ ...scaling, scalingMetric: "cpu_utilization" });
  meter.start();
  await pass(2_000);
  expect(replica.looks).toBe(1);
  meter.setScaling(scaling);
  meter.start();
  await pass(100_000);
  expect([clock.pending, replica.looks, meter.usedPercent(replica)]).toEqual([0, 1, 0]);
});

test("a look that takes long is not begun twice, and one that was stopped tells nothing", async () => {
  const { site, meter, pass } = meterOf("memory_utilization");
  const replica = new Metered();
  replica.uses = { cpuMs: 0, residentBytes: 2e9 };
  const { promise, resolve } = Promise.withResolvers<void>();
  replica.isRead = promise;
  site.ready = [replica];
  meter.start();
  for (let reading = 0; reading < 5; reading++) await pass(2_000);
  expect([replica.looks, site.measured]).toEqual([1, 0]);
  meter.stop();
  resolve();
  await pass(0);
  expect([site.measured, meter.usedPercent(replica)]).toEqual([0, 0]);
  meter.start();
  await pass(2_000);
  expect([replica.looks, site.measured]).toEqual([2, 1]);
  meter.stop();
});

test("a replica of which nobody can tell counts for nothing", async () => {
  const { site, meter, pass } = meterOf("memory_utilization");
  const [dark, seen] = [new Metered(), new Metered()];
  dark.uses = null;
  seen.uses = { cpuMs: 0, residentBytes: 2e9 };
  site.ready = [dark, seen];
  meter.start();
  await pass(2_000);
  expect([dark, seen].map((replica) => meter.usedPercent(replica))).toEqual([0, 100]);
  meter.stop();
});

test("ten readings an interval, and never more than one a second", async () => {
  for (const [seconds, gapMs] of [
    [300, 30_000],
    [30, 3_000],
    [5, 1_000],
    [1, 1_000],
  ] as const) {
    const { site, scaling, meter, pass } = meterOf("cpu_utilization");
    meter.setScaling({ ...scaling, evaluationIntervalSeconds: seconds });
    meter.start();
    await pass(gapMs - 1);
    expect([seconds, site.measured]).toEqual([seconds, 0]);
    await pass(1);
    expect([seconds, site.measured]).toEqual([seconds, 1]);
    meter.stop();
  }
});

test("growth is counted over the latest interval, and what was before is forgotten", () => {
  const window = new Window(10_000);
  expect(window.growthPerMs).toBe(0);
  for (let second = 0; second <= 10; second++) window.add(second * 1000, second * 500);
  expect(window.growthPerMs).toBe(0.5);
  for (let second = 11; second <= 15; second++) window.add(second * 1000, 5_000);
  expect(window.growthPerMs).toBe(0.25);
  for (let second = 16; second <= 20; second++) window.add(second * 1000, 5_000);
  expect(window.growthPerMs).toBe(0);
});

test("what began within the interval counts over all of it", () => {
  const window = new Window(10_000);
  window.add(50_000, 900);
  expect(window.growthPerMs).toBe(0);
  window.add(51_000, 1_900);
  expect(window.growthPerMs).toBe(0.1);
});

test("readings that are further apart than the interval count over the time between them", () => {
  const window = new Window(1_000);
  window.add(0, 0);
  window.add(4_000, 1_000);
  expect(window.growthPerMs).toBe(0.25);
});

test("a number that falls has not grown", () => {
  const window = new Window(1_000);
  window.add(0, 500);
  window.add(1_000, 100);
  expect(window.growthPerMs).toBe(0);
});

test("the mean is that of the latest interval", () => {
  const window = new Window(2_000);
  expect(window.mean).toBe(0);
  window.add(0, 900);
  expect(window.mean).toBe(900);
  for (const second of [1, 2, 3]) window.add(second * 1000, 300);
  expect(window.mean).toBe(300);
});
