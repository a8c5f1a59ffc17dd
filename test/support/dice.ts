import { onTestFinished } from "vitest";
import { explains } from "./explain.ts";

/** Gives numbers by chance, each from 0 up to `below`. */
export type Roll = (below: number) => number;

/** Chance that can be thrown again: the same seed gives the same numbers. */
export function dice(seed: number): Roll {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state / 2 ** 32) * below;
  };
}

/** Other numbers in each test run, unless MILLRACE_FAULTS_SEED says which. A test that fails tells its seed. */
export function faultDice(): Roll {
  const seed = Number(process.env["MILLRACE_FAULTS_SEED"] ?? Math.ceil(Math.random() * 1e9));
  onTestFinished(explains(() => `MILLRACE_FAULTS_SEED=${seed}`));
  return dice(seed);
}
