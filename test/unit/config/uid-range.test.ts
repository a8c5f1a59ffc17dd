import { expect, test } from "vitest";
import { uidRange } from "../../../src/config/uid-range.ts";

test("a range of ids is two numbers, the lower one first, above those of the system", () => {
  expect(uidRange.read("400000-465535")).toEqual({ first: 400_000, last: 465_535 });
  expect(uidRange.read("1000-1000")).toEqual({ first: 1000, last: 1000 });
  const wrong = [
    "",
    "5",
    "1000",
    "999-2000",
    "2000-1000",
    "1000-4294967295",
    "1e3-2000",
    "1000 - 2000",
    "a-b",
  ];
  for (const text of wrong) expect([text, uidRange.read(text)]).toEqual([text, undefined]);
});
