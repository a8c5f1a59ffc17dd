import { describe, expect, test } from "vitest";
import { Turmoil } from "../soak/turmoil.ts";
import { growths, quantile } from "../soak/vitals.ts";

const samples = (...megabytes: number[]) =>
  megabytes.map((memoryMb) => ({ memoryMb, descriptors: 80, walMb: 4, p99Ms: null }));

describe("what a soak compares", () => {
  test("memory that climbs from the first third to the last is named, a peak between them is not", () => {
    expect(growths(samples(200, 210, 400, 420, 600, 620))).toEqual([
      "memoryMb grew from 210.0 to 620.0, the middle of the first and the last third",
    ]);
    expect(growths(samples(200, 210, 900, 420, 220, 210))).toEqual([]);
  });

  test("a quantile of nothing is nothing", () => {
    expect([quantile([], 0.99), quantile([3, 1, 2], 0.5)]).toEqual([null, 2]);
  });

  test("only what no fault touched is calm", async () => {
    const turmoil = new Turmoil();
    const before = turmoil.watch();
    expect(before()).toBe(true);
    await turmoil.during("kill", async () => {
      expect([before(), turmoil.watch()()]).toEqual([false, false]);
    });
    expect([before(), turmoil.watch()()]).toEqual([false, true]);
  });
});
