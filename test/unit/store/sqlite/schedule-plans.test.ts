import { beforeAll, expect, test } from "vitest";
import type { ScheduleSpec } from "../../../../src/model/schedule.ts";
import { projects } from "../../../../src/store/accounts/memberships.ts";
import { apps } from "../../../../src/store/apps/apps.ts";
import { firings } from "../../../../src/store/schedules/firings.ts";
import { schedules } from "../../../../src/store/schedules/schedules.ts";
import { plansOf } from "../../../support/query-plan.ts";
import { idAt } from "../../../support/sample-run.ts";
import { sqliteSession } from "../../../support/sqlite-session.ts";

const session = sqliteSession();
const SPEC: ScheduleSpec = {
  cron: "* * * * *",
  timezone: "UTC",
  functionName: "run",
  input: {},
  overlap: "queue",
  catchUp: "none",
  jitterSeconds: 0,
};
let appNumber = 0;
let number = 0;

beforeAll(async () => {
  await projects.insert.run(session(), { id: "p-plans", name: "one", createdAt: 1 });
  const app = { projectId: "p-plans", name: "app", createdAt: 1 };
  appNumber = (await apps.insertOrFind.run(session(), app)).number;
  const made = { appNumber, name: "a", spec: SPEC, nextAt: 10, fireAt: 10, now: 1 };
  number = (await schedules.insert.run(session(), made)).schedule!.number;
});

const time = (at: number) => ({ at, runId: idAt(1) });

test.each<[string, () => Promise<string[]>]>([
  ["the outlook", () => plansOf(session(), firings.outlook, undefined)],
  ["what is due", () => plansOf(session(), firings.due, { now: 20, limit: 5 })],
  [
    "firing",
    () => {
      const due = [
        { number, updatedAt: 1, expectedAt: 10, times: [time(10), time(11)], nextAt: 20, fireAt: 20 },
      ];
      return plansOf(session(), firings.fire, { due, now: 10 });
    },
  ],
  ["what may begin", () => plansOf(session(), firings.startable, 5)],
  ["what is to be cancelled", () => plansOf(session(), firings.superseded, { owner: "one", limit: 5 })],
  ["the end of firings", () => plansOf(session(), firings.end, [{ schedule: number, at: 10 }])],
  ["the last firings", () => plansOf(session(), firings.last, { schedules: [number], limit: 5 })],
  ["removing old firings", () => plansOf(session(), firings.prune, { after: 0, limit: 5 })],
  ["the schedule of a run", () => plansOf(session(), schedules.ofRun, { appNumber, id: idAt(1) })],
  ["a list of schedules", () => plansOf(session(), schedules.list, { appNumber, after: "", limit: 5 })],
])("%s reads no table from end to end", async (name, plan) => {
  const steps = (await plan()).flatMap((of) => of.split("; "));
  expect(steps.length).toBeGreaterThan(0);
  // The schedules that fire are in the order of their times; a list of values is no table.
  const scans = steps.filter(
    (step) => step.startsWith("SCAN ") && !/INDEX schedules_due|CONSTANT|VALUES/.test(step),
  );
  expect(scans).toEqual([]);
  // A schedule may have millions that had runs: they are not looked at to remove those that had none.
  const isRemoval = name === "removing old firings";
  expect(steps.filter((step) => step.includes("INDEX firings_skipped")).length > 0).toBe(isRemoval);
});
