import { expect } from "vitest";
import { hostileStorm } from "./storm.ts";

const MEMORY_BYTES = 64 * 1024 * 1024;

/** Kinds of faults that some thousand cases bring about, by a word of each. */
const EXPECTED = [
  "for no call",
  "out of turn",
  "was not asked back",
  "was not cancelled",
  "on control",
  "is not JSON",
  "answered with the status",
  "a RESULT of",
  "FAILED that cannot be read",
  "FAILED that is not JSON",
  "a line that",
];

/** Has so many hostile cases played; a failure names the seed, which plays the same ones again. */
export async function expectStormHarmless(cases: number): Promise<void> {
  const seed = Number(process.env["MILLRACE_HOSTILE_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
  const from = Number(process.env["MILLRACE_HOSTILE_FROM"] ?? 0);
  const again = `MILLRACE_HOSTILE_SEED=${seed} plays the same cases again`;
  const storm = await hostileStorm({ cases, seed, from });
  expect(storm.exit, `the service ended: ${again}`).toBe(0);
  expect(storm.errors, `the service met errors of its own: ${again}`).toEqual([]);
  expect(storm.cases).toBeGreaterThanOrEqual(cases);
  expect(storm.answers.get("none") ?? 0, `callers without an answer: ${again}`).toBe(0);
  expect(storm.unanswered, `requests without an answer: ${again}`).toBe(0);
  expect(storm.neighbour.wrong, `the neighbour: ${again}`).toEqual([]);
  expect(storm.neighbour.calls).toBeGreaterThan(10);
  expect(storm.mostBytes - storm.startBytes, `memory: ${again}`).toBeLessThan(MEMORY_BYTES);
  const faults = Object.keys(storm.faults);
  // They were really played: a few hundred, which differ from run to run, bring about most of these.
  const missing = EXPECTED.filter((word) => !faults.some((fault) => fault.includes(word)));
  if (cases > 5_000) expect(missing).toEqual([]);
  else expect(missing.length, `${missing.join(", ")}: ${again}`).toBeLessThan(EXPECTED.length / 2);
}
