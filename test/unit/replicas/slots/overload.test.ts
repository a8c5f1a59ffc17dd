import { expect, test } from "vitest";
import { overload } from "../../../../src/replicas/slots/overload.ts";

test("who is refused may come again when those before him are served, within a minute", () => {
  const after = (waiting: number, slots: number, meanMs: number) =>
    overload("queue_full", { waiting, slots, meanMs }).retryAfterSeconds;
  expect(after(10, 2, 1000)).toBe(5);
  expect(after(0, 1, 1000)).toBe(1);
  expect(after(1000, 1, 60_000)).toBe(60);
});
