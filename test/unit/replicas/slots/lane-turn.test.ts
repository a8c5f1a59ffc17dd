import * as fc from "fast-check";
import { expect, test } from "vitest";
import { isBacklogsTurn } from "../../../../src/replicas/slots/lanes.ts";

test("a lane that waits alone has every turn", () => {
  for (const passedBy of [0, 1, 2, 3]) {
    expect(isBacklogsTurn(0, 1, passedBy)).toBe(true);
    expect(isBacklogsTurn(1, 0, passedBy)).toBe(false);
  }
});

test("while both wait, three callers go first and the fourth slot is the backlog's", () => {
  expect([0, 1, 2, 3, 4].map((passedBy) => isBacklogsTurn(9, 9, passedBy))).toEqual([
    false,
    false,
    false,
    true,
    true,
  ]);
});

test("how many wait does not matter, only whether any do", () => {
  const some = fc.integer({ min: 1, max: 1_000 });
  fc.assert(
    fc.property(some, some, fc.nat(10), (callers, backlog, passedBy) => {
      expect(isBacklogsTurn(callers, backlog, passedBy)).toBe(isBacklogsTurn(1, 1, passedBy));
    }),
  );
});
