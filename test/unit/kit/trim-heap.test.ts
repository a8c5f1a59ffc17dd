import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { trimHeap } from "../../../src/kit/trim-heap.ts";

test("the C library is asked for its free pages, and a process that has worked has some", ({ skip }) => {
  if (!readFileSync("/proc/self/maps", "utf8").includes("/libc.so.6")) skip("NOT TESTED: this is not glibc");
  expect(trimHeap()).toBe(true);
});
