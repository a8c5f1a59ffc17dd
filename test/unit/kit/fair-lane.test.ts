import { expect, test } from "vitest";
import { FairLane } from "../../../src/kit/fair-lane.ts";
import type { LaneLimits, Leave } from "../../../src/kit/fair-lane.ts";
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
