import { expect, test } from "vitest";
import {
  type Learned,
  release,
  type ReleaseRules,
  type WaitingGroup,
} from "../../../../src/replicas/slots/release.ts";

const waiting: WaitingGroup = {
  calls: 4,
  size: 4,
  isFull: false,
  oldestMs: 0.2,
  lullMs: 0.05,
  freeMs: 0.2,
  restMs: 0.1,
  isDraining: false,
  inAll: 4,
  slots: 1,
};
const rules: ReleaseRules = { maxWaitMs: 10, targetMs: null, limitMs: 900_000 };
const learned: Learned = { duration: { fixedMs: 5, perSizeMs: 0.2 }, burstGapMs: 0.05, expected: 28 };

const decide = (changes: Partial<WaitingGroup & ReleaseRules & Learned>) =>
  release({ ...waiting, ...changes }, { ...rules, ...changes }, { ...learned, ...changes });

test("callers that were just answered are waited for, for a moment", () => {
  const decision = decide({});
  expect(decision.leaves).toBe(false);
  expect(!decision.leaves && decision.waitMs).toBeCloseTo(0.95);
});

for (const [why, changes, reason] of [
  ["no more calls are expected", { expected: 0 }, "idle"],
  ["callers do not ask again at once", { burstGapMs: null }, "idle"],
  ["nothing is known of the function", { duration: null }, "idle"],
  ["the slot had been idle before the first call came", { restMs: 11 }, "idle"],
  ["it takes longer until all are there than a second execution does", { burstGapMs: 0.2 }, "idle"],
  ["the calls have stopped coming", { lullMs: 1 }, "idle"],
  ["max_wait is over", { freeMs: 10 }, "window"],
  ["max_wait is zero", { maxWaitMs: 0, restMs: 0, freeMs: 0 }, "window"],
  ["no further call fits", { isFull: true }, "full"],
  ["the service stops", { isDraining: true }, "drain"],
] as const)
  test(`a group leaves whole if ${why}`, () => {
    expect(decide(changes)).toEqual({ leaves: true, size: 4, reason });
  });

test("a group does not wait longer than its oldest call can", () => {
  const decision = decide({ targetMs: 6.1 });
  expect(!decision.leaves && decision.waitMs).toBeCloseTo(0.1);
});

test("no more calls leave than the target allows, and the time limit with a margin", () => {
  expect(decide({ size: 64, calls: 64, inAll: 64, slots: 3, targetMs: 10 })).toEqual({
    leaves: true,
    size: 24,
    reason: "deadline",
  });
  expect(decide({ size: 64, calls: 64, limitMs: 20 })).toEqual({
    leaves: true,
    size: 25,
    reason: "deadline",
  });
});

test("a target that some of the calls would miss with batches so small limits nothing", () => {
  const late = { size: 64, calls: 64, isFull: true, targetMs: 10 };
  expect(decide({ ...late, inAll: 64, slots: 2 })).toEqual({ leaves: true, size: 64, reason: "full" });
  expect(decide({ ...late, inAll: 64, slots: 3 })).toMatchObject({ size: 24 });
  expect(decide({ ...late, inAll: 640, slots: 3, limitMs: 20 })).toMatchObject({ size: 25 });
});

test("a target that even one call misses limits nothing", () => {
  expect(decide({ size: 64, calls: 64, isFull: true, targetMs: 4 })).toEqual({
    leaves: true,
    size: 64,
    reason: "full",
  });
});
