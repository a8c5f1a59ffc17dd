import { expect, test } from "vitest";
import { within } from "../../../src/kit/within.ts";

test("what comes in time is given", async () => {
  expect(await within(1_000, Promise.resolve(7))).toBe(7);
});

test("what does not is null", async () => {
  expect(await within(5, new Promise(() => {}))).toBeNull();
});

test("a failure is a failure", async () => {
  await expect(within(1_000, Promise.reject(new Error("no")))).rejects.toThrow("no");
});
