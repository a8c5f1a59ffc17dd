import { expect, test } from "vitest";
import { roundTicks, timeTicks } from "../../../web/parts/charts/scale.ts";

test("the numbers of an axis are round and reach the greatest value", () => {
  expect(roundTicks(7, 4, true)).toEqual([0, 2, 4, 6, 8]);
  expect(roundTicks(1_180, 4, true)).toEqual([0, 500, 1_000, 1_500]);
  expect(roundTicks(100, 4, true)).toEqual([0, 50, 100]);
  expect(roundTicks(0.7, 4, false).map((tick) => tick.toFixed(1))).toEqual([
    "0.0",
    "0.2",
    "0.4",
    "0.6",
    "0.8",
  ]);
  for (let most = 1; most < 100_000; most = Math.ceil(most * 1.3)) {
    const ticks = roundTicks(most, 4, true);
    expect(ticks.at(-1)).toBeGreaterThanOrEqual(most);
    expect(ticks.length).toBeLessThanOrEqual(6);
  }
});

test("a count of one has whole numbers, nothing at all has an axis too", () => {
  expect(roundTicks(1, 4, true)).toEqual([0, 1]);
  expect(roundTicks(0, 4, true)).toEqual([0, 1]);
});

test("the times of an axis lie in it, at equal round steps, no more than there is room for", () => {
  const fromMs = Date.parse("2026-03-01T10:07:00Z");
  for (const spanMs of [15, 60, 360, 1_440, 10_080].map((minutes) => minutes * 60_000)) {
    const ticks = timeTicks(fromMs, fromMs + spanMs, 6);
    expect(ticks.length).toBeGreaterThanOrEqual(2);
    expect(ticks.length).toBeLessThanOrEqual(7);
    for (const ms of ticks) expect(new Date(ms).getSeconds()).toBe(0);
    expect(ticks[0]).toBeGreaterThanOrEqual(fromMs);
    expect(ticks.at(-1)).toBeLessThanOrEqual(fromMs + spanMs);
    const gaps = ticks.slice(1).map((ms, place) => ms - (ticks[place] ?? 0));
    expect(new Set(gaps).size).toBeLessThanOrEqual(1);
  }
});
