import { expect, test } from "vitest";
import { Window } from "../../../../src/replicas/slots/window.ts";

test("growth is counted over the latest interval, and what was before is forgotten", () => {
  const window = new Window(10_000);
  expect(window.growthPerMs).toBe(0);
  for (let second = 0; second <= 10; second++) window.add(second * 1000, second * 500);
  expect(window.growthPerMs).toBe(0.5);
  for (let second = 11; second <= 15; second++) window.add(second * 1000, 5_000);
  expect(window.growthPerMs).toBe(0.25);
  for (let second = 16; second <= 20; second++) window.add(second * 1000, 5_000);
  expect(window.growthPerMs).toBe(0);
});

test("what began within the interval counts over all of it", () => {
  const window = new Window(10_000);
  window.add(50_000, 900);
  expect(window.growthPerMs).toBe(0);
  window.add(51_000, 1_900);
  expect(window.growthPerMs).toBe(0.1);
});

test("readings that are further apart than the interval count over the time between them", () => {
  const window = new Window(1_000);
  window.add(0, 0);
  window.add(4_000, 1_000);
  expect(window.growthPerMs).toBe(0.25);
});

test("a number that falls has not grown", () => {
  const window = new Window(1_000);
  window.add(0, 500);
  window.add(1_000, 100);
  expect(window.growthPerMs).toBe(0);
});

test("the mean is that of the latest interval", () => {
  const window = new Window(2_000);
  expect(window.mean).toBe(0);
  window.add(0, 900);
  expect(window.mean).toBe(900);
  for (const second of [1, 2, 3]) window.add(second * 1000, 300);
  expect(window.mean).toBe(300);
});
