import { expect, test } from "vitest";
import { Bell } from "../../../src/kit/bell.ts";

test("everybody who waits is woken, once", async () => {
  const bell = new Bell();
  bell.ring();
  const waits = [bell.wait(), bell.wait()];
  expect(bell.isAwaited).toBe(true);
  bell.ring();
  await Promise.all(waits);
  expect(bell.isAwaited).toBe(false);
});

test("a signal ends the wait of whom it is for, and nothing of it is left", async () => {
  const bell = new Bell();
  const left = new AbortController();
  let hasRung = false;
  const other = bell.wait().then(() => (hasRung = true));
  const waiting = bell.wait(left.signal);
  left.abort();
  await waiting;
  expect([hasRung, bell.isAwaited]).toEqual([false, true]);
  await bell.wait(left.signal);
  bell.ring();
  await other;
  expect(bell.isAwaited).toBe(false);
});
