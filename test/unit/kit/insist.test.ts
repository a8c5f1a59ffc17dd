import { expect, test } from "vitest";
import { insist } from "../../../src/kit/insist.ts";
import { HandClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";

/** Work that fails so often before it gives its word. */
function failing(times: number): { readonly work: () => Promise<string>; readonly tries: () => number } {
  let tries = 0;
  return {
    work: async () => {
      tries += 1;
      if (tries <= times) throw new Error(`no ${tries}`);
      return "done";
    },
    tries: () => tries,
  };
}

test("it is tried until it works, with a wait after each failure", async () => {
  const clock = new HandClock();
  const { work, tries } = failing(2);
  const heard: string[] = [];
  const done = insist(work, {
    clock,
    gapMs: (failures) => failures * 100,
    goesOn: (error) => heard.push((error as Error).message) > 0,
  });
  await until("it waits", () => clock.pending === 1);
  clock.advance(99);
  expect(tries()).toBe(1);
  clock.advance(1);
  await until("it waits again", () => clock.pending === 1);
  clock.advance(199);
  expect(tries()).toBe(2);
  clock.advance(1);
  expect(await done).toBe("done");
  expect(heard).toEqual(["no 1", "no 2"]);
});

test("it ends without a word where it is not to go on, and with what goesOn throws", async () => {
  const parts = { clock: new HandClock(), gapMs: () => 1_000 };
  expect(await insist(failing(1).work, { ...parts, goesOn: () => false })).toBeNull();
  const rethrow = (error: unknown): never => {
    throw error;
  };
  await expect(insist(failing(1).work, { ...parts, goesOn: rethrow })).rejects.toThrow("no 1");
});

test("a signal cuts the wait short, and one more try is made", async () => {
  const clock = new HandClock();
  const stopping = new AbortController();
  const { signal } = stopping;
  const { work, tries } = failing(9);
  const done = insist(work, { clock, gapMs: () => 1_000, goesOn: () => !signal.aborted, signal });
  await until("it waits", () => clock.pending === 1);
  stopping.abort();
  expect(await done).toBeNull();
  expect(tries()).toBe(2);
});
