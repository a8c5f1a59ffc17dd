import { expect, test } from "vitest";

import { parseDuration } from "../../../src/kit/units.ts";

test.each([
  ["90s", 90],
  ["15m", 900],
  ["1h30m", 5400],
  ["1h 30m", 5400],
  ["2d", 172_800],
  ["250ms", 0.25],
  ["1.5h", 5400],
  ["42", 42],
  [" 0.5 ", 0.5],
])("reads %j as %d seconds", (text, seconds) => {
  expect(parseDuration(text)).toBe(seconds);
});

test.each([
  "",
  " ",
  "15 minutes",
  "2 days",
  "-5s",
  "1e9",
  "5x",
  "s",
  "1h-5m",
  "NaN",
  "Infinity",
  "9".repeat(400),
])("refuses %j", (text) => {
  expect(parseDuration(text)).toBeNull();
});
