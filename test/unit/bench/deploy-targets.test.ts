import { expect, test } from "vitest";
import { judgeDeploy, quantile } from "../../../bench/deploy-targets.ts";
import type { DeployFigures } from "../../../bench/deploy.ts";
import { verifies } from "../../verifies.ts";

function figures(
  fresh: readonly number[],
  again: readonly number[],
  problem: string | null = null,
): DeployFigures {
  const times = { bare: [1], fastapi: [], fresh, "fresh-once": fresh, again, "again-once": again };
  return { rounds: fresh.length, times, note: null, problem };
}

/** 19 rounds of the one time and one of the other. */
function rounds(usual: number, once: number): number[] {
  return [...Array.from({ length: 19 }, () => usual), once];
}

test("a quantile is one of the rounds", () => {
  const times = Array.from({ length: 20 }, (_, i) => 20 - i);
  expect([0, 0.5, 0.95, 1].map((share) => quantile(times, share))).toEqual([1, 10, 19, 20]);
  expect(quantile([], 0.5)).toBeNull();
});

verifies("bench.verdicts", "deploys are held against their targets, all but the slowest of 20", () => {
  const kept = judgeDeploy(figures(rounds(2_000, 9_000), rounds(1_500, 9_000)));
  expect(kept.map(({ value, isMet }) => [value, isMet])).toEqual([
    [2_000, true],
    [2_000, true],
    [1_500, true],
    [1_500, true],
  ]);
  expect(kept[0]?.spread).toEqual([2_000, 9_000]);
  const missed = judgeDeploy(figures(rounds(2_001, 1), rounds(1_501, 1)));
  expect(missed.map(({ isMet }) => isMet)).toEqual([false, false, false, false]);
});

test("deploys of which one went wrong, or that were not measured, meet no target", () => {
  expect(judgeDeploy(figures([1], [1], "the build is init_failure")).map(({ isMet }) => isMet)).toEqual([
    null,
    null,
    null,
    null,
  ]);
  expect(judgeDeploy(figures([], [])).map(({ isMet }) => isMet)).toEqual([null, null, null, null]);
});
