import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Clock } from "../../../src/kit/clock.ts";
import { ImmediateQueue, TimeSlicer } from "../../../src/kit/event-loop.ts";
import { verifies } from "../../verifies.ts";

/** What was done, in order; each step takes a quarter of a millisecond. */
function playedTurns() {
  let nowMs = 0;
  const rests: { readonly ms: number; readonly end: () => void }[] = [];
  const clock = {
    monotonic: () => nowMs,
    after: (ms: number, end: () => void) => void rests.push({ ms, end }),
  } as unknown as Clock;
  const turns = new TimeSlicer(clock);
  const done: string[] = [];
  /** How long the rest is that is taken now; it is over then. */
  const endRest = (): number | null => {
    const rest = rests.shift();
    rest?.end();
    return rest?.ms ?? null;
  };
  const work = (name: string, steps: number) => {
    let left = steps;
    return {
      step: () => {
        left -= 1;
        done.push(name);
        nowMs += 0.25;
        return left > 0;
      },
    };
  };
  return { turns, done, work, endRest };
}

verifies(
  "runs.events.turns",
  "much work of one owner makes another wait for a step, not for all",
  async () => {
    const { turns, done, work, endRest } = playedTurns();
    turns.add("a", work("a1", 100));
    turns.add("a", work("a2", 100));
    turns.add("b", work("b", 3));
    await setImmediate();
    expect(done).toEqual(["a1", "b"]);
    for (let slices = 0; slices < 3; slices++) endRest();
    expect(done.slice(2)).toEqual(["a2", "b", "a1", "b", "a2", "a1"]);
  },
);

verifies(
  "runs.events.turns",
  "after a slice of half a millisecond the event loop is left alone for two",
  async () => {
    const { turns, done, work, endRest } = playedTurns();
    turns.add("a", work("a", 10));
    await setImmediate();
    for (let slices = 1; slices < 5; slices++) {
      await setImmediate();
      expect(done.length).toBe(slices * 2);
      expect(endRest()).toBe(2);
    }
    expect([done.length, endRest()]).toEqual([10, null]);
  },
);

test("what fits into a slice waits for nothing, whenever it comes", async () => {
  const { turns, done, work, endRest } = playedTurns();
  for (const name of ["first", "second"]) {
    turns.add("a", work(name, 1));
    await setImmediate();
    expect([done.at(-1), endRest()]).toEqual([name, null]);
  }
});

test("work that is added again while it is done goes on", async () => {
  const { turns, done } = playedTurns();
  const work = {
    step: () => {
      if (done.push("step") < 3) turns.add("a", work);
      return false;
    },
  };
  turns.add("a", work);
  await setImmediate();
  await setImmediate();
  expect(done.length).toBe(3);
});

verifies(
  "listener.crowd",
  "thousands whose time is over at once leave the loop free in between",
  async () => {
    const work = new ImmediateQueue();
    const done: number[] = [];
    for (let piece = 0; piece < 1_000; piece++) work.add(() => done.push(piece));
    expect(done).toEqual([]);
    let before = 0;
    while (done.length < 1_000) {
      await setImmediate();
      expect(done.length - before).toBeLessThanOrEqual(32);
      before = done.length;
    }
    expect(done).toEqual(Array.from({ length: 1_000 }, (_, piece) => piece));
    work.add(() => done.push(-1));
    await setImmediate();
    await setImmediate();
    expect(done.at(-1)).toBe(-1);
  },
);

test("work that is added by other work is done too", async () => {
  const work = new ImmediateQueue();
  const done: string[] = [];
  work.add(() => {
    done.push("first");
    work.add(() => done.push("second"));
  });
  for (let turn = 0; turn < 3; turn++) await setImmediate();
  expect(done).toEqual(["first", "second"]);
});
