import { expect, test } from "vitest";
import { within } from "../../../src/kit/within.ts";
import { HandClock } from "../../support/clocks.ts";

test("what comes in time is given", async () => {
  expect(await within(1_000, Promise.resolve(7))).toBe(7);
});

test("what does not is null", async () => {
  const clock = new HandClock();
  const late = within(1_000, new Promise(() => {}), clock);
  clock.advance(1_000);
  expect(await late).toBeNull();
  expect(clock.pending).toBe(0);
});

test("a failure is a failure", async () => {
  await expect(within(1_000, Promise.reject(new Error("no")))).rejects.toThrow("no");
});
