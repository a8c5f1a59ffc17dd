import { array, assert, integer, property } from "fast-check";
import { expect, test } from "vitest";
import { MinuteWindow } from "../../../../src/runs/quotas/minute-window.ts";

const MINUTE_MS = 60_000;

test("a call counts for a minute, and for at most a second more", () => {
  const steps = array(integer({ min: 0, max: 20_000 }), { maxLength: 60 });
  assert(
    property(integer({ min: 0, max: 2 ** 41 }), steps, (start, gaps) => {
      const window = new MinuteWindow();
      const calls: number[] = [];
      let now = start;
      for (const gap of gaps) {
        now += gap;
        window.add(now);
        calls.push(now);
        const within = (ms: number): number => calls.filter((at) => now - at < ms).length;
        expect(window.count(now)).toBeGreaterThanOrEqual(within(MINUTE_MS));
        expect(window.count(now)).toBeLessThanOrEqual(within(MINUTE_MS + 1_000));
      }
    }),
  );
});

test("it says how long to wait until there is room", () => {
  const window = new MinuteWindow();
  expect(window.waitMs(500, 0)).toBe(0);
  window.add(1_500);
  window.add(1_600);
  window.add(31_000);
  expect(window.waitMs(40_000, 3)).toBe(0);
  const wait = window.waitMs(40_000, 2);
  expect(window.count(40_000 + wait - 1)).toBe(3);
  expect(window.count(40_000 + wait)).toBe(1);
  const longer = window.waitMs(62_000, 0);
  expect([window.count(62_000 + longer - 1), window.count(62_000 + longer)]).toEqual([1, 0]);
});
