import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Progress } from "../../../src/model/run.ts";
import { ProgressKeeper } from "../../../src/runs/progress.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

function keeperWithStore() {
  const clock = new HandClock();
  const saved: (number | null)[] = [];
  const save = async ({ fraction }: Progress): Promise<void> => void saved.push(fraction);
  return { clock, saved, keeper: new ProgressKeeper(clock, () => save) };
}

const message = null;

verifies("progress.throttled", "10,000 reports in a second are two writes, the newest last", async () => {
  const { clock, saved, keeper } = keeperWithStore();
  for (let n = 1; n <= 10_000; n++) {
    keeper.report({ fraction: n / 10_000, message });
    clock.advance(0.1);
  }
  await setImmediate();
  expect(saved).toEqual([0.0001]);
  clock.advance(1_000);
  await setImmediate();
  expect(saved).toEqual([0.0001, 1]);
  clock.advance(60_000);
  await setImmediate();
  expect(saved).toHaveLength(2);
});

test("what is not stored yet is stored at the end, and nothing after it", async () => {
  const { clock, saved, keeper } = keeperWithStore();
  keeper.report({ fraction: 0.1, message });
  clock.advance(0);
  keeper.report({ fraction: 0.2, message });
  await keeper.flush();
  expect(saved).toEqual([0.1, 0.2]);
  keeper.report({ fraction: 0.3, message });
  clock.advance(60_000);
  await keeper.flush();
  expect(saved).toEqual([0.1, 0.2, 0.3].slice(0, saved.length));
  expect(clock.pending).toBe(0);
});

test("while the storage is away, reports do not gather: the newest follows the one that is being stored", async () => {
  const clock = new HandClock();
  const saved: (number | null)[] = [];
  const gate = Promise.withResolvers<void>();
  const save = async ({ fraction }: Progress): Promise<void> => {
    saved.push(fraction);
    await gate.promise;
  };
  const keeper = new ProgressKeeper(clock, () => save);
  for (let n = 1; n <= 100; n++) {
    keeper.report({ fraction: n / 100, message });
    clock.advance(10_000);
    await setImmediate();
  }
  gate.resolve();
  await setImmediate();
  clock.advance(10_000);
  await keeper.flush();
  expect(saved).toEqual([0.01, 1]);
  expect(clock.pending).toBe(0);
});
