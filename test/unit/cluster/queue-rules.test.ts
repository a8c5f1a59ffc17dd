import { expect, test } from "vitest";
import type { RunState } from "../../../src/model/run.ts";
import { type QueueEvent, queueFaults, type QueueLimits } from "../../support/cluster/queue-rules.ts";
import { verifies } from "../../verifies.ts";

const LIMITS: QueueLimits = { running: 2, runningOfKey: 1, attempts: 3 };
const LONG_AGO = -60_000;

type Step = Partial<QueueEvent> & { readonly run: string };

/** Steps of runs, each in a transaction of its own unless it says otherwise, a second apart. */
function history(...steps: readonly Step[]): QueueEvent[] {
  const states = new Map<string, RunState>();
  return steps.map((step, second) => {
    const state = step.state ?? "queued";
    const before = step.before === undefined ? (states.get(step.run) ?? null) : step.before;
    states.set(step.run, state);
    return {
      transaction: String(second),
      askedAt: second * 1_000,
      committedAt: second * 1_000,
      app: 1,
      attempt: 1,
      place: step.run,
      dueAt: null,
      line: "ada",
      key: null,
      maxAttempts: null,
      ...step,
      before,
      state,
    };
  });
}

const waits = (run: string, more: Partial<QueueEvent> = {}): Step => ({
  run,
  committedAt: LONG_AGO,
  ...more,
});
const begins = (run: string, more: Partial<QueueEvent> = {}): Step => ({ run, state: "running", ...more });
const ends = (run: string, more: Partial<QueueEvent> = {}): Step => ({ run, state: "success", ...more });

verifies("cluster.queue-history", "runs that begin in their turn and within the limits are no fault", () => {
  const good = history(
    waits("1"),
    waits("2", { key: "k" }),
    waits("3", { key: "k" }),
    waits("4", { dueAt: 9_000 }),
    begins("1", { transaction: "both" }),
    begins("2", { transaction: "both", key: "k" }),
    ends("2", { key: "k" }),
    begins("3", { key: "k" }),
    // Its service died, and it waits again.
    { run: "1" },
    begins("1"),
    ends("1"),
    ends("3", { key: "k" }),
    { run: "4", dueAt: null },
    begins("4", { attempt: 2 }),
    ends("4"),
  );
  expect(queueFaults(good, LIMITS)).toEqual([]);
});

test.each<[string, ...Step[]]>([
  ["a run has not ended", waits("1")],
  ["a run went on after its end", waits("1"), begins("1"), ends("1"), begins("1"), ends("1")],
  ["a run was running", waits("1"), begins("1"), ends("1", { before: "queued" })],
  [
    "3 runs of an app at once",
    ...["1", "2", "3"].map((run) => waits(run)),
    ...["1", "2", "3"].map((run) => begins(run)),
    ...["1", "2", "3"].map((run) => ends(run)),
  ],
  [
    "2 runs of the key k at once",
    ...["1", "2"].map((run) => waits(run, { key: "k" })),
    ...["1", "2"].map((run) => begins(run, { key: "k" })),
    ...["1", "2"].map((run) => ends(run, { key: "k" })),
  ],
  [
    "a run overtook 1 of its line and key",
    waits("1"),
    waits("2"),
    begins("2"),
    ends("2"),
    begins("1"),
    ends("1"),
  ],
  ["a run began before its time", waits("1", { dueAt: 60_000 }), begins("1"), ends("1")],
  ["a run was tried too often", waits("1"), begins("1", { attempt: 4 }), ends("1")],
  ["a run was tried too often", waits("1"), begins("1", { attempt: 3, maxAttempts: 2 }), ends("1")],
])("a plain queue finds: %s", (what, ...steps) => {
  const faults = queueFaults(history(...steps), LIMITS);
  expect(faults.filter((fault) => fault.startsWith(`${what}: `))).not.toEqual([]);
});

test("a line whose turn does not come is found, and one that shares the app with a flood is none", () => {
  const flood = (count: number): Step[] =>
    Array.from({ length: count }, (_, i) => [waits(`0${i}`), begins(`0${i}`), ends(`0${i}`)]).flat();
  const late = history(
    waits("9", { line: "bo" }),
    ...flood(200),
    begins("9", { line: "bo" }),
    ends("9", { line: "bo" }),
  );
  expect(queueFaults(late, LIMITS)).toEqual([
    expect.stringContaining("runs of other lines began before 9: "),
  ]);
  const inTurn = history(
    waits("9", { line: "bo" }),
    ...flood(20),
    begins("9", { line: "bo" }),
    ends("9", { line: "bo" }),
  );
  expect(queueFaults(inTurn, LIMITS)).toEqual([]);
});

test("what became visible only a moment ago is not overtaken", () => {
  const steps = history(
    { run: "1", committedAt: 1_900 },
    { run: "2", committedAt: 1_950 },
    begins("2"),
    begins("1"),
    ends("1"),
    ends("2"),
  );
  expect(queueFaults(steps, LIMITS)).toEqual([]);
});
