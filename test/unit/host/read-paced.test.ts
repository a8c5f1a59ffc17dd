import { expect, onTestFinished, test, vi } from "vitest";
import { verifies } from "../../verifies.ts";
import { ReadingPace } from "../../../src/host/read-paced.ts";

test("readers wait when the time is spent, and go on in turn", () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const pace = new ReadingPace();
  const turns: string[] = [];
  /** A reader that uses all there is, again and again. */
  const greedy = (name: string) => (): void => {
    turns.push(name);
    pace.spend(1);
    pace.wait(greedy(name));
  };
  expect(pace.isSpent()).toBe(false);
  expect(pace.isSpent(1)).toBe(true);
  greedy("a")();
  greedy("b")();
  expect(pace.isSpent()).toBe(true);
  for (let window = 0; window < 4; window++) vi.advanceTimersByTime(5);
  expect(turns).toEqual(["a", "b", "a", "b", "a", "b"]);
});

test("readers that use little all go on at once", () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const pace = new ReadingPace();
  let resumed = 0;
  pace.spend(2);
  for (let reader = 0; reader < 10; reader++) pace.wait(() => (resumed += 1));
  vi.advanceTimersByTime(4);
  expect(resumed).toBe(0);
  vi.advanceTimersByTime(1);
  expect([resumed, pace.isSpent()]).toEqual([10, false]);
});

verifies("logs.reading.share", "who has many readers is not read more often than who has one", () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const pace = new ReadingPace();
  const turns: string[] = [];
  const greedy = (owner: string) => (): void => {
    turns.push(owner);
    pace.spend(1);
    pace.wait(greedy(owner), owner);
  };
  for (let reader = 0; reader < 100; reader++) greedy("many")();
  greedy("one")();
  turns.length = 0;
  for (let window = 0; window < 10; window++) vi.advanceTimersByTime(5);
  expect(turns.filter((owner) => owner === "one")).toHaveLength(5);
});
