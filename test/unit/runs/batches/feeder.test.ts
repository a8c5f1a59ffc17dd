import { setImmediate } from "node:timers/promises";
import { expect } from "vitest";
import { createLog } from "../../../../src/kit/log.ts";
import { BatchFeeder, type FeederParts } from "../../../../src/runs/batches/feeder.ts";
import type { FedLine } from "../../../../src/store/batches/batch-lines.ts";
import type { OpenBatch } from "../../../../src/store/batches/line-batches.ts";
import { HandClock } from "../../../support/clocks.ts";
import { idAt } from "../../../support/sample-run.ts";
import { verifies } from "../../../verifies.ts";

type Played = { -readonly [Name in keyof OpenBatch]: OpenBatch[Name] };

/** A feeder beside a store in memory, with one open batch of each of some apps. */
function played(apps: number, line = "{}", total = 3) {
  const clock = new HandClock();
  const batches = Array.from({ length: apps }, (_, i) => batchOf(i + 1, total, clock.now()));
  const fed: { number: number; lines: readonly FedLine[] }[] = [];
  const draining = new Set<number>();
  /** When the delay of each line ends, of a single batch. */
  const delayed = new Map<number, number>();
  /** Apps of which nothing is read until they are let go. */
  const held = new Map<number, PromiseWithResolvers<void>>();
  const of = (number: number) => batches.find((batch) => batch.number === number)!;
  const store = {
    lineBatches: {
      open: async () => batches.map((batch) => ({ ...batch })),
      block: async ({ number }: { number: number }) => {
        const { promise } = held.get(number) ?? { promise: null };
        await promise;
        const lineCount = of(number).total;
        return { first: 0, lineCount, bytes: Buffer.from(Array(lineCount).fill(line).join("\n")) };
      },
      cancel: async ({ number }: { number: number }) => {
        if (of(number).state !== "running") return false;
        of(number).state = "cancelling";
        return true;
      },
      // The upload's last write comes before it.
      abandon: async ({ number }: { number: number }) => {
        if (of(number).state === "uploading") of(number).state = "running";
        return false;
      },
    },
    batchLines: {
      openCount: async () => ({ open: 0, over: 0 }),
      feed: async ({ number, fed: before, lines }: { number: number; fed: number; lines: FedLine[] }) => {
        fed.push({ number, lines });
        of(number).fed = before + lines.length;
        for (const each of lines) if ("delayedUntil" in each) delayed.set(each.line, each.delayedUntil);
        of(number).delayed = delayed.size;
        return true;
      },
    },
    delayedLines: {
      due: async ({ until, limit }: { until: number; limit: number }) =>
        [...delayed.keys()].filter((each) => delayed.get(each)! <= until).slice(0, limit),
      feed: async ({ number, lines }: { number: number; lines: FedLine[] }) => {
        fed.push({ number, lines });
        for (const each of lines) delayed.delete(each.line);
        of(number).delayed = delayed.size;
        return true;
      },
    },
  };
  const parts = {
    store,
    steadyClock: clock,
    log: createLog("silent"),
    reserve: { isLow: false },
    target: (appNumber: number) => ({ appNumber, versionId: idAt(1), config: CONFIG }),
    owners: null,
    large: null,
    wake: () => {},
    isDraining: (appNumber: number) => draining.has(appNumber),
  } as unknown as FeederParts;
  const feeder = new BatchFeeder(parts);
  const turns = async (): Promise<void> => {
    for (let i = 0; i < 50; i++) await setImmediate();
  };
  const hold = (appNumber: number) => {
    const gate = Promise.withResolvers<void>();
    held.set(appNumber, gate);
    return gate;
  };
  return { feeder, clock, batches, fed, draining, hold, turns };
}

const CONFIG = { scaling: { maxReplicas: 1, replicaConcurrency: 1 }, queue: null };

function batchOf(number: number, total: number, now: number): Played {
  return {
    number,
    id: idAt(now),
    appNumber: number,
    functionName: "run",
    ip: null,
    accountId: "sa-one",
    user: null,
    trace: null,
    keyHash: null,
    fingerprint: null,
    wishes: null,
    webhookEndpoint: null,
    sealedSecret: null,
    retryOf: null,
    state: "running",
    fence: 1,
    total,
    totalBytes: 9,
    fed: 0,
    delayed: 0,
    ended: 0,
    succeeded: 0,
    failed: 0,
    rate: { perSecond: 0, at: now },
    createdAt: now,
    updatedAt: now,
    uploadedAt: now,
    completedAt: null,
    projectId: "p-one",
    name: "app",
    isOrphan: false,
  };
}

verifies("batches.fair", "a batch that goes on slowly delays no other app's", async () => {
  const { feeder, batches, fed, hold, turns } = played(3);
  const gate = hold(1);
  feeder.start();
  await turns();
  const numbers = () => new Set(fed.map(({ number }) => number));
  expect(numbers()).toEqual(new Set([2, 3]));
  batches.push(batchOf(4, 3, 0));
  feeder.wake();
  await turns();
  expect(numbers()).toEqual(new Set([2, 3, 4]));
  gate.resolve();
  await turns();
  expect(batches.map((batch) => batch.fed)).toEqual([3, 3, 3, 3]);
  await feeder.stop();
});

verifies("batches.fair", "however many apps there are, each has its turn", async () => {
  const { feeder, batches, hold, turns } = played(30);
  const gates = [1, 2, 3, 4, 5, 6, 7].map((appNumber) => hold(appNumber));
  feeder.start();
  await turns();
  // One place is left for 23 apps.
  expect(batches.slice(7).every((batch) => batch.fed === 3)).toBe(true);
  expect(batches.slice(0, 7).every((batch) => batch.fed === 0)).toBe(true);
  for (const gate of gates) gate.resolve();
  await feeder.stop();
});

verifies("batches.draining", "a batch puts no line into a queue that is drained", async () => {
  const { feeder, clock, batches, draining, turns } = played(1);
  draining.add(1);
  feeder.start();
  await turns();
  expect(batches[0]!.fed).toBe(0);
  draining.delete(1);
  clock.advance(1_000);
  await turns();
  expect(batches[0]!.fed).toBe(3);
  await feeder.stop();
});

verifies(
  "batches.delayed",
  "delayed lines get their runs shortly before their time, a window at a time",
  async () => {
    const { feeder, clock, batches, fed, turns } = played(1, '{"delay":60}', 2_500);
    feeder.start();
    await turns();
    clock.advance(100);
    await turns();
    expect(batches[0]).toMatchObject({ fed: 2_500, delayed: 2_500 });
    expect(fed[0]!.lines[0]).toMatchObject({ line: 0, delayedUntil: batches[0]!.createdAt + 60_000 });
    const runs = () => fed.flatMap(({ lines }) => lines).filter((each) => "accepted" in each);
    clock.advance(54_000);
    await turns();
    expect(runs()).toEqual([]);
    clock.advance(900);
    await turns();
    expect(runs()).toHaveLength(2_000);
    expect(runs()[0]).toMatchObject({ accepted: { run: { dueAt: batches[0]!.createdAt + 60_000 } } });
    clock.advance(100);
    await turns();
    expect(batches[0]).toMatchObject({ fed: 2_500, delayed: 0 });
    await feeder.stop();
  },
);

verifies("batches.cancel", "a batch is cancelled whose upload is completed at that moment", async () => {
  const { feeder, batches } = played(1);
  batches[0]!.state = "uploading";
  expect(await feeder.cancel({ number: 1 })).toBe(true);
  expect(batches[0]!.state).toBe("cancelling");
  expect(await feeder.cancel({ number: 1 })).toBe(false);
  await feeder.stop();
});
