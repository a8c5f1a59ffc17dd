import { setImmediate as turn } from "node:timers/promises";
import { expect } from "vitest";
import { afterRunning } from "../../../src/kit/patience.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

verifies("frozen.answers", "a time in which the process stood still counts as one step", async () => {
  const clock = new HandClock();
  let calls = 0;
  afterRunning(1_000, () => (calls += 1), clock);
  clock.advance(60_000);
  await turn();
  for (let step = 0; step < 2; step++) {
    clock.advance(250);
    await turn();
  }
  expect(calls).toBe(0);
  clock.advance(250);
  expect(calls).toBe(0);
  await turn();
  expect([calls, clock.pending]).toEqual([1, 0]);
});

verifies("frozen.answers", "what arrives in the last turn of the event loop is in time", async () => {
  const clock = new HandClock();
  let calls = 0;
  const cancel = afterRunning(100, () => (calls += 1), clock);
  clock.advance(60_000);
  cancel();
  await turn();
  expect([calls, clock.pending]).toEqual([0, 0]);
});
