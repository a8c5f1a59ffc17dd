import { expect, test } from "vitest";
import { IdleCollector, trimHeap } from "../../../src/kit/memory.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";
import { readFileSync } from "node:fs";

const MB = 1024 * 1024;
const LOOK_MS = 10_000;

/** A thread that a test keeps busy and fills. */
function thread() {
  const clock = new HandClock();
  const state = { heldMb: 60, keptMb: 20, busyShare: 0, collections: 0 };
  const collector = new IdleCollector(clock, {
    heldBytes: () => state.heldMb * MB,
    busyShare: () => state.busyShare,
    collect: () => {
      state.collections += 1;
      state.heldMb = state.keptMb;
    },
  });
  const look = (): number => {
    clock.advance(LOOK_MS);
    return state.collections;
  };
  return { state, look, collector };
}

verifies("memory.idle", "garbage is collected once a thread is idle, not while it works", () => {
  const { state, look } = thread();
  state.busyShare = 0.3;
  expect([look(), look()]).toEqual([0, 0]);
  state.busyShare = 0.01;
  expect(look()).toBe(1);
});

verifies("memory.idle", "what gave something back is done again, until it gives nothing more", () => {
  const { state, look } = thread();
  expect(look()).toBe(1);
  // Another thread has ended meanwhile.
  state.keptMb = 15;
  expect([look(), look(), look()]).toEqual([2, 3, 3]);
});

verifies("memory.idle", "a thread that has not grown since is left alone, and one that has is not", () => {
  const { state, look } = thread();
  expect([look(), look(), look()]).toEqual([1, 2, 2]);
  // Less than a collection is worth.
  state.heldMb = 23;
  expect(look()).toBe(2);
  state.heldMb = 40;
  expect(look()).toBe(3);
});

verifies("memory.idle", "it has grown if it holds more than the least since the last collection", () => {
  const { state, look } = thread();
  expect([look(), look()]).toEqual([1, 2]);
  state.heldMb = 10;
  expect(look()).toBe(2);
  state.heldMb = 15;
  expect(look()).toBe(3);
});

verifies("memory.idle", "what stays in use is no reason to collect again and again", () => {
  const { state, look } = thread();
  state.keptMb = 500;
  expect([look(), look(), look()]).toEqual([1, 1, 1]);
});

verifies("memory.idle", "after its stop it does nothing", () => {
  const { look, collector } = thread();
  collector.stop();
  expect(look()).toBe(0);
});

test("the C library is asked for its free pages, and a process that has worked has some", ({ skip }) => {
  if (!readFileSync("/proc/self/maps", "utf8").includes("/libc.so.6")) skip("NOT TESTED: this is not glibc");
  expect(trimHeap()).toBe(true);
});
