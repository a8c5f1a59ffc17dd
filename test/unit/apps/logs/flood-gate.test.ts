import { expect, test } from "vitest";
import { verifies } from "../../../verifies.ts";
import { FloodGate } from "../../../../src/apps/logs/flood-gate.ts";

const LIMITS = { linesPerSecond: 10, bytesPerSecond: 1_000, burstSeconds: 2 };

/** How many of so many lines pass. */
function passed(gate: FloodGate<string>, source: string, count: number, now: number, bytes = 1): number {
  let passes = 0;
  for (let i = 0; i < count; i++)
    if (gate.pass({ owner: "app", source }, `line ${i}`, bytes, now).passes) passes += 1;
  return passes;
}

test("a burst passes, then lines are left out until a second's worth may pass again", () => {
  const gate = new FloodGate<string>(LIMITS);
  expect(passed(gate, "run", 100, 0)).toBe(20);
  expect(passed(gate, "run", 100, 900)).toBe(0);
  const next = gate.pass({ owner: "app", source: "run" }, "after", 1, 1_000);
  expect(next).toEqual({ passes: true, after: { first: "line 20", lineCount: 180 } });
  expect(passed(gate, "run", 100, 1_000)).toBe(9);
});

test("many bytes in few lines are a flood too", () => {
  const gate = new FloodGate<string>(LIMITS);
  expect(passed(gate, "run", 10, 0, 500)).toBe(4);
  expect(passed(gate, "run", 1, 999, 1)).toBe(0);
  expect(passed(gate, "run", 1, 1_000, 1)).toBe(1);
});

test("one source's flood leaves no line of another out", () => {
  const gate = new FloodGate<string>(LIMITS);
  passed(gate, "loud", 1_000, 0);
  expect(passed(gate, "quiet", 20, 0)).toBe(20);
});

test("a flood that just stops is told of, once", () => {
  const gate = new FloodGate<string>(LIMITS);
  passed(gate, "run", 25, 0);
  expect(gate.settle(999)).toEqual([]);
  expect(gate.settle(1_000)).toEqual([{ first: "line 20", lineCount: 5 }]);
  expect(gate.settle(2_000)).toEqual([]);
  expect(gate.end()).toEqual([]);
});

test("at the end every flood is told of", () => {
  const gate = new FloodGate<string>(LIMITS);
  passed(gate, "one", 21, 0);
  passed(gate, "two", 22, 0);
  expect(gate.end().map(({ lineCount }) => lineCount)).toEqual([1, 2]);
});

test("a source that is quiet for long enough may print a whole burst again", () => {
  const gate = new FloodGate<string>(LIMITS);
  expect(passed(gate, "run", 20, 0)).toBe(20);
  gate.settle(5_000);
  expect(passed(gate, "run", 20, 5_000)).toBe(20);
});

test("so many sources that they could fill the memory share one allowance", () => {
  const gate = new FloodGate<string>(LIMITS);
  for (let i = 0; i < 50_000; i++) passed(gate, `run ${i}`, 1, 0);
  const more = Array.from({ length: 100 }, (_, i) => passed(gate, `more ${i}`, 1, 0));
  expect(more.reduce((sum, count) => sum + count, 0)).toBe(20);
  gate.settle(10_000);
  expect(passed(gate, "more 0", 20, 10_000)).toBe(20);
});

verifies("logs.tags.share", "what one owner makes up takes no allowance from another", () => {
  const gate = new FloodGate<string>(LIMITS);
  for (let i = 0; i < 100_000; i++) gate.pass({ owner: "loud", source: `made up ${i}` }, "line", 1, 0);
  const passes = Array.from(
    { length: 1_000 },
    (_, i) => gate.pass({ owner: "quiet", source: `run ${i}` }, "line", 1, 0).passes,
  );
  expect(passes.every(Boolean)).toBe(true);
});
