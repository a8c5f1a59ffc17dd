import { expect, test } from "vitest";
import { ReadyClock } from "../../../src/replicas/ready-clock.ts";

test("it counts only while a replica is ready", () => {
  const clock = new ReadyClock();
  expect(clock.elapsed(1_000)).toBe(0);
  clock.set(true, 1_000);
  expect(clock.elapsed(1_250)).toBe(250);
  clock.set(false, 1_300);
  expect(clock.elapsed(9_000)).toBe(300);
  clock.set(true, 10_000);
  expect(clock.elapsed(10_001)).toBe(301);
});

test("being told the same again changes nothing", () => {
  const clock = new ReadyClock();
  clock.set(false, 500);
  clock.set(true, 1_000);
  clock.set(true, 2_000);
  expect(clock.elapsed(3_000)).toBe(2_000);
  clock.set(false, 3_000);
  clock.set(false, 4_000);
  expect(clock.elapsed(5_000)).toBe(2_000);
});
