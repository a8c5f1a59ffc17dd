import { beforeAll, expect, test } from "vitest";
import { projects } from "../../../../src/store/accounts/memberships.ts";
import { apps } from "../../../../src/store/apps/apps.ts";
import { claims } from "../../../../src/store/runs/claims.ts";
import { dailyUsage, replicaUsage, type UsageQuery } from "../../../../src/store/usage/daily-usage.ts";
import { quotaCounts } from "../../../../src/store/usage/quota-counts.ts";
import { plansOf } from "../../../support/query-plan.ts";
import { sampleRun } from "../../../support/sample-run.ts";
import { sqliteSession } from "../../../support/sqlite-session.ts";

const session = sqliteSession();
const QUERY: UsageQuery = {
  projectId: "p-plans",
  fromDay: 1,
  toDay: 9,
  groups: ["day", "app", "token"],
  apps: [],
  accountId: null,
  tag: null,
  limit: 5,
};
let appNumber = 0;

beforeAll(async () => {
  await projects.insert.run(session(), { id: "p-plans", name: "one", createdAt: 1 });
  const app = { projectId: "p-plans", name: "app", createdAt: 1 };
  appNumber = (await apps.insertOrFind.run(session(), app)).number;
});

test.each<[string, () => Promise<string[]>]>([
  ["usage by app and token", () => plansOf(session(), dailyUsage.ofCalls, QUERY)],
  ["usage by tag", () => plansOf(session(), dailyUsage.ofCalls, { ...QUERY, groups: ["tag"] })],
  [
    "the usage of one token",
    () => plansOf(session(), dailyUsage.ofCalls, { ...QUERY, groups: [], accountId: "sa-1" }),
  ],
  ["what replicas used", () => plansOf(session(), dailyUsage.ofReplicas, { ...QUERY, groups: ["day"] })],
  [
    "the GPU time of a day",
    () => plansOf(session(), dailyUsage.gpuMs, { projectId: "p-plans", accountId: "sa-1", day: 3 }),
  ],
  ["removing old days", () => plansOf(session(), dailyUsage.expire, { now: 1, limit: 5 })],
  [
    "adding what replicas used",
    () =>
      plansOf(session(), replicaUsage.add, [
        { appNumber, day: 1, replicaMs: 1, cpuMs: 1, gpuMs: 0, gbMs: 0 },
      ]),
  ],
  [
    "adding what a run used",
    () => {
      const run = sampleRun({ appNumber, terms: null });
      const end = { run, owner: "one", fence: 1, result: null, part: null, delivery: null };
      return plansOf(session(), claims.finish, [end]);
    },
  ],
  [
    "exchanging counts",
    () =>
      plansOf(session(), quotaCounts.exchange, {
        node: "one",
        counts: [{ subject: "a", calls: 1, running: 0 }],
      }),
  ],
  ["removing old counts", () => plansOf(session(), quotaCounts.prune, undefined)],
])("%s reads no table from end to end", async (_name, plan) => {
  const steps = (await plan()).flatMap((of) => of.split("; "));
  expect(steps.length).toBeGreaterThan(0);
  // A project's apps are found among all apps, deleted ones included.
  expect(steps.filter((step) => step.startsWith("SCAN ") && !/SCAN a\b|CONSTANT|VALUES/.test(step))).toEqual(
    [],
  );
});
