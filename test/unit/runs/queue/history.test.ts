import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { createLog } from "../../../../src/kit/log.ts";
import { QueueHistory, STEP_MS } from "../../../../src/runs/queue/history.ts";
import type { Store } from "../../../../src/store/store.ts";
import { HandClock } from "../../../support/clocks.ts";

/** A history of the queue of app 1, whose depth a test decides. */
function played(apps = [1, 2]) {
  const clock = new HandClock();
  const queue = { normal: 0, taken: 0 };
  const store = {
    claims: { backlog: async () => (queue.normal > 0 ? apps : []) },
    queueDepth: { of: async () => ({ high: 0, normal: queue.normal, low: 0 }) },
  } as unknown as Store;
  const history = new QueueHistory({
    store,
    clock,
    log: createLog("silent"),
    paces: { taken: () => queue.taken },
    serves: (appNumber) => appNumber !== 2,
  });
  const step = async (normal: number, taken = queue.taken): Promise<void> => {
    Object.assign(queue, { normal, taken });
    clock.advance(STEP_MS);
    for (let turns = 0; turns < 5 + apps.length; turns++) await setImmediate();
  };
  const last = (count: number) =>
    history
      .of(1)
      .moments.slice(-count)
      .map(({ normal, begun }) => [normal, begun]);
  return { history, step, last, clock };
}

test("a queue is remembered while runs wait in it, and how many have begun", async () => {
  const { history, step, last, clock } = played();
  await step(5);
  await step(3, 2);
  await step(0, 5);
  expect(last(4)).toEqual([
    [0, 0],
    [5, 0],
    [3, 2],
    [0, 3],
  ]);
  const { fromMs, moments } = history.of(1);
  expect([moments.length, fromMs]).toEqual([360, clock.now() - 359 * STEP_MS]);
  expect(history.of(2).moments.every(({ normal }) => normal === 0)).toBe(true);
  await history.stop();
});

test("many queues take turns to be counted, and what is remembered is bounded", async () => {
  const { history, step } = played(Array.from({ length: 1_200 }, (_, i) => i + 3));
  const remembered = () =>
    Array.from({ length: 1_200 }, (_, i) => i + 3).filter(
      (app) => history.of(app).moments.at(-1)!.normal > 0,
    );
  await step(5);
  expect(remembered()).toHaveLength(50);
  await step(5);
  expect(remembered()).toHaveLength(100);
  for (let steps = 0; steps < 30; steps++) await step(5);
  expect(remembered()).toHaveLength(1_000);
  await history.stop();
});

test("it is forgotten after an hour without runs", async () => {
  const { history, step, last } = played();
  await step(1);
  for (let steps = 0; steps < 362; steps++) await step(0);
  expect(last(360).every(([normal]) => normal === 0)).toBe(true);
  await step(7);
  expect(last(2)).toEqual([
    [0, 0],
    [7, 0],
  ]);
  await history.stop();
});
