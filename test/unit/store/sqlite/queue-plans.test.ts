import { expect, test } from "vitest";
import { queueStates } from "../../../../src/store/apps/queue-states.ts";
import { queueDepth } from "../../../../src/store/runs/queue-depth.ts";
import { plansOf } from "../../../support/query-plan.ts";
import { sqliteSession } from "../../../support/sqlite-session.ts";

const session = sqliteSession();

test.each<[string, () => Promise<string[]>]>([
  ["the depth of a queue", () => plansOf(session(), queueDepth.of, { appNumber: 1, most: 5 })],
  ["the state of a queue", () => plansOf(session(), queueStates.find, 1)],
  ["those of some apps", () => plansOf(session(), queueStates.closed, [1, 2])],
  ["a change", () => plansOf(session(), queueStates.change, { appNumber: 1, state: "paused", now: 1 })],
])("%s reads no table from end to end", async (_, plan) => {
  const steps = (await plan()).flatMap((of) => of.split("; "));
  expect(steps.length).toBeGreaterThan(0);
  // What was counted is not a table.
  expect(steps.filter((step) => step.startsWith("SCAN ") && !step.startsWith("SCAN counted"))).toEqual([]);
  // Among an app's runs may be a million that are delayed, or have ended.
  expect(steps.filter((step) => /SEARCH runs USING PRIMARY KEY \(app_number=\?\)/.test(step))).toEqual([]);
});
