import { expect, test } from "vitest";
import {
  hasBatchEnded,
  LINE_BATCH_MOVES,
  LINE_BATCH_STATES,
  type Rate,
  rateAfter,
} from "../../../src/model/line-batch.ts";

const NEW: Rate = { perSecond: 0, at: 0 };

/** The rate after lines have ended evenly for some seconds, looked at ten times in each. */
function after(seconds: number, perSecond: number, rate = NEW, startedAt = 0): Rate {
  let current = rate;
  for (let i = 0; i < seconds * 10; i++)
    current = rateAfter(current, perSecond / 10, startedAt, Math.max(startedAt, current.at) + 100);
  return current;
}

test("the rate is that of the last lines, from the beginning on", () => {
  for (const seconds of [1, 10, 60, 600]) expect(after(seconds, 50).perSecond).toBeCloseTo(50, 0);
  const faster = after(120, 500, after(600, 50));
  expect(faster.perSecond).toBeGreaterThan(480);
  expect(faster.perSecond).toBeLessThan(500);
});

test("without lines it falls, and time that does not pass changes nothing", () => {
  const rate = after(60, 100);
  expect(rateAfter(rate, 0, 0, rate.at + 30_000).perSecond).toBeLessThan(50);
  expect(rateAfter(rate, 0, 0, rate.at + 600_000).perSecond).toBeLessThan(0.1);
  expect(rateAfter(rate, 5, 0, rate.at)).toBe(rate);
  expect(rateAfter(NEW, 1, 1_000, 1_000)).toBe(NEW);
});

test("a batch that has ended never moves", () => {
  for (const state of LINE_BATCH_STATES.filter(hasBatchEnded))
    for (const { from } of Object.values(LINE_BATCH_MOVES)) expect(from).not.toContain(state);
});
