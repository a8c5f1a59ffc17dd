import { describe, expect, test } from "vitest";
import { RUN_STATES, type RunState } from "../../../src/model/run.ts";
import { breaches, type Event, ownersDuring } from "../../support/cluster/history-rules.ts";
import { verifies } from "../../verifies.ts";

const NOTHING = { app: null, owner: null, fence: null, run: null, state: null, before: null, version: null };

type Line = Pick<Event, "kind" | "role"> & Partial<Event>;

const node = (role: string, owner: string): Line => ({ kind: "node", role, owner });
const taken = (role: string, owner: string, fence: number): Line => ({
  kind: "owner",
  role,
  app: 1,
  owner,
  fence,
});
const run = (role: string, owner: string, before: RunState | null, state: RunState): Line => ({
  kind: "run",
  role,
  app: 1,
  run: "r",
  owner,
  before: before && RUN_STATES.indexOf(before),
  state: RUN_STATES.indexOf(state),
});
const switched = (role: string, owner: string): Line => ({
  kind: "switch",
  role,
  app: 1,
  owner,
  fence: 1,
  version: "v",
});

/** What two nodes, A and B of the roles a and b, wrote after the app was A's. */
function history(...lines: readonly Line[]): Event[] {
  return [node("a", "A"), node("b", "B"), taken("a", "A", 1), ...lines].map((line, number) => ({
    ...NOTHING,
    number,
    committedAt: number,
    ...line,
  }));
}

verifies("cluster.history", "an app that changes hands, with its runs and versions, breaks no rule", () => {
  const good = history(
    switched("a", "A"),
    run("a", "A", "queued", "running"),
    taken("b", "B", 2),
    run("b", "A", "running", "queued"),
    run("b", "B", "queued", "running"),
    run("b", "B", "running", "success"),
    switched("b", "B"),
  );
  expect(breaches(good)).toEqual([]);
});

describe("what must never be is found", () => {
  const late = [taken("b", "B", 2), run("a", "A", "queued", "running")] as const;
  test.each<[string, ...Line[]]>([
    ["a fence did not grow", taken("b", "B", 1)],
    ["a run was claimed by a node without the app", ...late],
    ["a run was claimed by a node without the app", run("b", "B", null, "running")],
    ["a run was claimed in the name of another node", run("b", "A", "queued", "running")],
    ["a version was switched by a node without the app", taken("b", "B", 2), switched("a", "B")],
    [
      "a run of another node was ended",
      run("a", "A", "queued", "running"),
      run("b", "A", "running", "success"),
    ],
    ["a run went on after its end", run("a", "A", "success", "queued")],
    ["a run ended twice", run("a", "A", "running", "success"), run("a", "A", "running", "failure")],
  ])("%s", (what, ...lines) => {
    expect(breaches(history(...lines))).toEqual([expect.stringContaining(`${what}: `)]);
  });
});

test("all nodes that had an app in a while are told", () => {
  const events = history(taken("b", "B", 2));
  expect([...ownersDuring(events, 1, 0, 9)]).toEqual(["A", "B"]);
  expect([...ownersDuring(events, 1, 4, 9)]).toEqual(["B"]);
  expect([...ownersDuring(events, 1, 0, 2)]).toEqual(["A"]);
});
