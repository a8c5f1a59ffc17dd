import { expect, test } from "vitest";
import { Condition, FairLane, forEachConcurrently, Turns } from "../../../src/kit/concurrency.ts";
import type { LaneLimits, Leave } from "../../../src/kit/concurrency.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

const LIMITS: LaneLimits = { total: 2, perKey: 1, waiting: 3, waitMs: 1_000 };

/** A lane, and who has come in so far, in order. */
function laneOf(limits: Partial<LaneLimits> = {}) {
  const clock = new HandClock();
  const lane = new FairLane({ ...LIMITS, ...limits }, clock);
  const entered: string[] = [];
  const leaves: Leave[] = [];
  const come = async (name: string, signal?: AbortSignal): Promise<boolean> => {
    const leave = await lane.enter(name.replace(/\d+$/, ""), signal);
    if (!leave) return false;
    entered.push(name);
    leaves.push(leave);
    return true;
  };
  const leaveFirst = async (): Promise<void> => {
    leaves.shift()?.();
    await Promise.resolve();
    await Promise.resolve();
    await Promise.resolve();
  };
  return { clock, lane, entered, come, leaveFirst };
}

verifies("shares.turns", "each key has its turn, whatever another has waiting", async () => {
  const { entered, come, leaveFirst, lane } = laneOf({ total: 1, waiting: 100 });
  const all = ["a1", "a2", "a3", "a4", "b1", "b2", "c1"].map((name) => come(name));
  await leaveFirst();
  for (let count = 0; count < 6; count++) await leaveFirst();
  expect(entered).toEqual(["a1", "a2", "b1", "c1", "a3", "b2", "a4"]);
  expect(await Promise.all(all)).not.toContain(false);
  await leaveFirst();
  expect(lane.load).toEqual({ running: 0, waiting: 0 });
});

verifies(
  "shares.turns",
  "one key leaves room for others, and too many of it are refused at once",
  async () => {
    const { entered, come, lane } = laneOf();
    const first = [come("a1"), come("a2"), come("a3"), come("a4")];
    expect(await come("a5")).toBe(false);
    expect(await come("b1")).toBe(true);
    expect(entered).toEqual(["a1", "b1"]);
    expect(lane.load).toEqual({ running: 2, waiting: 3 });
    expect(await first[0]).toBe(true);
  },
);

test("who waits too long, or has gone, is not let in", async () => {
  const { clock, come, leaveFirst, lane, entered } = laneOf({ total: 1 });
  await come("a1");
  const late = come("a2");
  const gone = new AbortController();
  const left = come("b1", gone.signal);
  gone.abort();
  expect(await left).toBe(false);
  clock.advance(1_000);
  expect(await late).toBe(false);
  expect(await come("c1", gone.signal)).toBe(false);
  expect(lane.load).toEqual({ running: 1, waiting: 0 });
  await leaveFirst();
  expect(await come("a3")).toBe(true);
  expect([entered, clock.pending]).toEqual([["a1", "a3"], 0]);
});

test("who leaves twice gives back one place", async () => {
  const lane = new FairLane(LIMITS, new HandClock());
  const leave = await lane.enter("a");
  await lane.enter("b");
  leave?.();
  leave?.();
  expect(lane.load.running).toBe(1);
});

test("a newcomer of a key does not pass those of it who wait", async () => {
  const { entered, come, leaveFirst } = laneOf({ perKey: 2, total: 2 });
  await Promise.all([come("a1"), come("a2")]);
  const waiting = [come("a3"), come("a4")];
  await leaveFirst();
  await leaveFirst();
  await Promise.all(waiting);
  expect(entered).toEqual(["a1", "a2", "a3", "a4"]);
});

test("every item is worked on, so many at a time", async () => {
  let now = 0;
  let most = 0;
  const done: number[] = [];
  await forEachConcurrently([1, 2, 3, 4, 5, 6, 7], 3, async (item) => {
    most = Math.max(most, (now += 1));
    await new Promise(setImmediate);
    now -= 1;
    done.push(item);
  });
  expect(done.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  expect(most).toBe(3);
});

test("after a failure nothing is begun, and what was begun ends first", async () => {
  const begun: number[] = [];
  const ended: number[] = [];
  const work = forEachConcurrently([1, 2, 3, 4, 5], 2, async (item) => {
    begun.push(item);
    await new Promise(setImmediate);
    if (item === 1) throw new Error("the first");
    await new Promise(setImmediate);
    ended.push(item);
  });
  await expect(work).rejects.toThrow("the first");
  expect(begun).toEqual([1, 2]);
  expect(ended).toEqual([2]);
});

test("no items are no work", async () => {
  await forEachConcurrently([], 3, async () => await Promise.reject(new Error("never")));
});

test("everybody who waits is woken, once", async () => {
  const condition = new Condition();
  condition.notify();
  const waits = [condition.wait(), condition.wait()];
  expect(condition.isAwaited).toBe(true);
  condition.notify();
  await Promise.all(waits);
  expect(condition.isAwaited).toBe(false);
});

test("a signal ends the wait of whom it is for, and nothing of it is left", async () => {
  const condition = new Condition();
  const left = new AbortController();
  let hasRung = false;
  const other = condition.wait().then(() => (hasRung = true));
  const waiting = condition.wait(left.signal);
  left.abort();
  await waiting;
  expect([hasRung, condition.isAwaited]).toEqual([false, true]);
  await condition.wait(left.signal);
  condition.notify();
  await other;
  expect(condition.isAwaited).toBe(false);
});

test("work on one thing goes in order, past failures; on another it does not wait", async () => {
  const turns = new Turns<string>();
  const gate = Promise.withResolvers<void>();
  const seen: string[] = [];
  const first = turns.take("a", async () => {
    await gate.promise;
    seen.push("first");
    throw new Error("failed");
  });
  const second = turns.take("a", async () => seen.push("second"));
  await turns.take("b", async () => seen.push("other"));
  gate.resolve();
  await expect(first).rejects.toThrow("failed");
  await second;
  expect(seen).toEqual(["other", "first", "second"]);
});
