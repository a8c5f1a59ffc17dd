import { expect, test } from "vitest";
import { releaseBytes } from "../../../src/kit/release-bytes.ts";

test("a large buffer gives its memory back at once", () => {
  const buffer = Buffer.allocUnsafeSlow(64 * 1024);
  releaseBytes(buffer);
  expect([buffer.length, buffer.buffer.byteLength]).toEqual([0, 0]);
});

test("one that shares its memory, and a small one, are left alone", () => {
  const whole = Buffer.allocUnsafeSlow(64 * 1024).fill("x");
  releaseBytes(whole.subarray(1));
  releaseBytes(whole.subarray(0, 32 * 1024));
  expect([whole.length, whole[1]]).toEqual([64 * 1024, 120]);
  const small = Buffer.allocUnsafeSlow(100).fill("x");
  releaseBytes(small);
  expect(small.toString()).toBe("x".repeat(100));
});
