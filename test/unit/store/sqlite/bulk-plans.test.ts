import { beforeAll, expect, test } from "vitest";
import { projects } from "../../../../src/store/accounts/memberships.ts";
import { apps } from "../../../../src/store/apps/apps.ts";
import { bulkJobs } from "../../../../src/store/runs/bulk-jobs.ts";
import { plansOf } from "../../../support/query-plan.ts";
import { idAt } from "../../../support/sample-run.ts";
import { sqliteSession } from "../../../support/sqlite-session.ts";

const session = sqliteSession();
const id = idAt(1);
const holder = { id, owner: "one", fence: 1 };
const step = { ...holder, stage: 0, cursor: null, pending: null, done: 0, skipped: [], now: 2 };
let appNumber = 0;

beforeAll(async () => {
  await projects.insert.run(session(), { id: "p-plans", name: "one", createdAt: 1 });
  const app = { projectId: "p-plans", name: "app", createdAt: 1 };
  appNumber = (await apps.insertOrFind.run(session(), app)).number;
  await bulkJobs.insert.run(session(), { appNumber, id, action: "delete", filter: {}, total: null, now: 1 });
  await bulkJobs.claim.run(session(), { id, owner: "one", isAlone: true });
});

test.each<[string, () => Promise<string[]>]>([
  [
    "a new job",
    () =>
      plansOf(session(), bulkJobs.insert, {
        appNumber,
        id: idAt(2),
        action: "retry",
        filter: {},
        total: 1,
        now: 1,
      }),
  ],
  ["a job", () => plansOf(session(), bulkJobs.find, { appNumber, id })],
  ["the jobs of an app", () => plansOf(session(), bulkJobs.list, { appNumber, limit: 5 })],
  ["what is to be carried out", () => plansOf(session(), bulkJobs.open, 5)],
  ["a claim", () => plansOf(session(), bulkJobs.claim, { id, owner: "one", isAlone: false })],
  ["a note", () => plansOf(session(), bulkJobs.note, step)],
  ["deleting runs", () => plansOf(session(), bulkJobs.remove, { ...step, fence: 2, appNumber, ids: [id] })],
  ["a cancelled job", () => plansOf(session(), bulkJobs.cancel, { appNumber, id, now: 3 })],
])("%s reads no table from end to end", async (_, plan) => {
  const steps = (await plan()).flatMap((of) => of.split("; "));
  expect(steps.length).toBeGreaterThan(0);
  const scans = steps.filter((one) => one.startsWith("SCAN ") && !/INDEX bulk_jobs_open|CONSTANT/.test(one));
  expect(scans).toEqual([]);
});
