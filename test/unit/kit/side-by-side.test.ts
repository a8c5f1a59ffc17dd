import { expect, test } from "vitest";
import { sideBySide } from "../../../src/kit/side-by-side.ts";

test("every item is worked on, so many at a time", async () => {
  let now = 0;
  let most = 0;
  const done: number[] = [];
  await sideBySide([1, 2, 3, 4, 5, 6, 7], 3, async (item) => {
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
  const work = sideBySide([1, 2, 3, 4, 5], 2, async (item) => {
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
  await sideBySide([], 3, async () => await Promise.reject(new Error("never")));
});
