import { assert, bigInt, property, stringMatching } from "fast-check";
import { expect, test } from "vitest";
import {
  FIRST_TAG,
  LAST_TAG,
  logIdAt,
  nanosecondsOf,
  parseTimestamp,
  timestampOf,
} from "../../../src/model/log-line.ts";
import { RUN_ID } from "../../../src/model/names.ts";

const TIME = bigInt({ min: 0n, max: 2n ** 63n - 1n });
const TAG = stringMatching(/^[0-9a-f]{14}$/);

test("an id is a UUID that keeps its time to the nanosecond", () => {
  assert(
    property(TIME, TAG, (time, tag) => {
      const id = logIdAt(time, tag);
      expect(id).toMatch(RUN_ID);
      expect(id).toMatch(/^.{14}8.{4}8/);
      expect(nanosecondsOf(id)).toBe(time);
    }),
  );
});

test("ids sort by time, and by tag within one nanosecond", () => {
  assert(
    property(TIME, TIME, TAG, TAG, (one, other, tag, otherTag) => {
      const isBefore = one < other || (one === other && tag < otherTag);
      expect(logIdAt(one, tag) < logIdAt(other, otherTag)).toBe(isBefore);
    }),
  );
  const id = logIdAt(5n, "00000000000001");
  expect(id > logIdAt(5n, FIRST_TAG)).toBe(true);
  expect(id < logIdAt(5n, LAST_TAG)).toBe(true);
});

test("a time is shown with nine digits, and read with any number", () => {
  const nanoseconds = BigInt(Date.UTC(2026, 10, 15, 7, 54, 6)) * 1_000_000n + 123_456_789n;
  const text = "2026-11-15T07:54:06.123456789Z";
  expect(timestampOf(logIdAt(nanoseconds, FIRST_TAG))).toBe(text);
  expect(parseTimestamp(text)).toBe(nanoseconds);
  expect(parseTimestamp("2026-11-15T09:54:06.12345678999+02:00")).toBe(nanoseconds);
  expect(parseTimestamp("2026-11-15t07:54:06.1z")).toBe(nanoseconds - 23_456_789n);
  expect(parseTimestamp("2026-11-15T07:54:06Z")).toBe(nanoseconds - 123_456_789n);
});

test("a time before the first or after the last is the nearest there is; anything else is none", () => {
  expect(parseTimestamp("0001-01-01T00:00:00Z")).toBe(0n);
  expect(parseTimestamp("9999-12-31T23:59:59.5Z")).toBe(2n ** 63n - 1n);
  for (const text of ["", "2026-11-15", "2026-11-15T07:54:06", "2026-13-15T07:54:06Z", "1763193246", "now"]) {
    expect(parseTimestamp(text)).toBeNull();
  }
});
