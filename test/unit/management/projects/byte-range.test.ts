import * as fc from "fast-check";
import { expect, test } from "vitest";
import { readRange } from "../../../../src/management/projects/volumes.ts";

test.each([
  [undefined, 10, null],
  ["bytes=0-0", 10, { first: 0, last: 0 }],
  ["bytes=2-5", 10, { first: 2, last: 5 }],
  ["bytes=2-", 10, { first: 2, last: 9 }],
  ["bytes=2-99", 10, { first: 2, last: 9 }],
  ["bytes=-3", 10, { first: 7, last: 9 }],
  ["bytes=-99", 10, { first: 0, last: 9 }],
  ["bytes=10-", 10, "none"],
  ["bytes=0-", 0, "none"],
  ["bytes=-0", 10, "none"],
  ["bytes=-5", 0, "none"],
  ["bytes=5-2", 10, null],
  ["bytes=0-1,3-4", 10, null],
  ["bytes=-", 10, null],
  ["lines=0-1", 10, null],
  ["bytes=0-99999999999999999999", 10, null],
])("%s of %i bytes", (header, sizeBytes, range) => {
  expect(readRange(header, sizeBytes)).toEqual(range);
});

test("a range always lies within the file", () => {
  fc.assert(
    fc.property(fc.string(), fc.nat(), fc.nat(), fc.nat(1000), (odd, from, to, sizeBytes) => {
      for (const header of [odd, `bytes=${from}-${to}`, `bytes=${from}-`, `bytes=-${to}`, `bytes=${odd}`]) {
        const range = readRange(header, sizeBytes);
        if (range === null || range === "none") continue;
        expect(range.first).toBeGreaterThanOrEqual(0);
        expect(range.first).toBeLessThanOrEqual(range.last);
        expect(range.last).toBeLessThan(sizeBytes);
      }
    }),
  );
});
