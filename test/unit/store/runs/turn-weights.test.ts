import { expect, test } from "vitest";
import { weightOf } from "../../../../src/store/runs/turns.ts";

test("a line has the weight of its account, and 1 without one", () => {
  const weights = { "sa-1": 5, "sa-2": 2 };
  const lines = ["sa-1", "sa-1/xyz", "sa-2/x/y", "sa-3", "sa-3/x", "", "/", "sa-", "sa-1x"];
  expect(lines.map((line) => weightOf(weights, line))).toEqual([5, 5, 2, 1, 1, 1, 1, 1, 1]);
});

test("a line may have the name of a member of every object", () => {
  for (const line of ["constructor", "__proto__", "toString", "constructor/x"])
    expect(weightOf({}, line)).toBe(1);
});
