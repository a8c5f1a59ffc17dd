import { expect, test } from "vitest";
import { fitText } from "../../../../src/apps/logs/line-buffer.ts";

const LIMIT = 64 * 1024;

test("a line of 64 KiB is kept whole", () => {
  for (const text of ["", "short", "x".repeat(LIMIT), "€".repeat(21_845), "🙂".repeat(16_384)]) {
    expect(fitText(text)).toBe(text);
  }
});

test("a longer one is cut between two characters, and says how much is missing", () => {
  expect(fitText("x".repeat(LIMIT + 7))).toBe(`${"x".repeat(LIMIT)} [millrace: cut, 7 more bytes]`);
  // 65,536 is no multiple of three: the last character within would be cut through.
  expect(fitText("€".repeat(21_846))).toBe(`${"€".repeat(21_845)} [millrace: cut, 3 more bytes]`);
});

test("NULs are replaced: not every database takes one", () => {
  expect(fitText("a\0b\0\0\0c")).toBe("a\uFFFDb\uFFFDc");
});
