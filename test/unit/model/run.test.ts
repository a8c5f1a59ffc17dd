import * as fc from "fast-check";
import { expect, test } from "vitest";
import { canMove, isFinal, RUN_STATES, WEBHOOK_STATES } from "../../../src/model/run.ts";
import type { RunState } from "../../../src/model/run.ts";
import { verifies } from "../../verifies.ts";

const anyState = fc.constantFrom(...RUN_STATES);

function reachable(from: RunState): Set<RunState> {
  const seen = new Set<RunState>([from]);
  for (const state of seen) for (const next of RUN_STATES) if (canMove(state, next)) seen.add(next);
  return seen;
}

verifies("run-record.states", "a run has five states, three of them final", () => {
  expect(RUN_STATES).toEqual(["queued", "running", "success", "failure", "cancelled"]);
  expect(RUN_STATES.filter(isFinal)).toEqual(["success", "failure", "cancelled"]);
});

verifies("run-record.webhook-states", "a webhook has four states", () => {
  expect(WEBHOOK_STATES).toEqual(["none", "pending", "delivered", "failed"]);
});

test("whatever is asked of a run, it never leaves a final state", () => {
  fc.assert(
    fc.property(fc.array(anyState, { minLength: 1, maxLength: 30 }), (wishes) => {
      const history: RunState[] = ["queued"];
      for (const wish of wishes) {
        const state = history.at(-1)!;
        history.push(canMove(state, wish) ? wish : state);
      }
      const end = history.findIndex(isFinal);
      const afterwards = end < 0 ? [] : history.slice(end);
      expect(new Set(afterwards).size).toBeLessThanOrEqual(1);
    }),
  );
});

test("no state moves to itself, so a late second finish is refused", () => {
  for (const state of RUN_STATES) expect(canMove(state, state)).toBe(false);
});

test("a run succeeds only out of running", () => {
  expect(RUN_STATES.filter((state) => canMove(state, "success"))).toEqual(["running"]);
});

test("only running goes back to queued", () => {
  expect(RUN_STATES.filter((state) => canMove(state, "queued"))).toEqual(["running"]);
});

test("every unfinished run can be cancelled, fail, and reach every final state", () => {
  for (const state of RUN_STATES.filter((candidate) => !isFinal(candidate))) {
    expect(canMove(state, "cancelled")).toBe(true);
    expect(canMove(state, "failure")).toBe(true);
    expect(reachable(state)).toEqual(new Set(RUN_STATES));
  }
});
