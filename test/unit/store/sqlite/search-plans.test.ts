import { beforeAll, expect, test } from "vitest";
import { apps } from "../../../../src/store/apps/apps.ts";
import { projects } from "../../../../src/store/accounts/memberships.ts";
import { packEnded } from "../../../../src/store/runs/ended-runs.ts";
import { runFigures } from "../../../../src/store/runs/run-figures.ts";
import { runs } from "../../../../src/store/runs/runs.ts";
import { plansOf } from "../../../support/query-plan.ts";
import { sampleEnd, sampleRun } from "../../../support/sample-run.ts";
import { sqliteSession } from "../../../support/sqlite-session.ts";

const session = sqliteSession();
const PROJECT = { projectId: "p-plans", appNumber: null };
const NOW = Date.now();
const SPAN = { ...PROJECT, fromMs: NOW - 600_000, toMs: NOW + 600_000, stepMs: 60_000, maxRuns: 10 };
const APPS = "SEARCH a USING INDEX apps_by_name (project_id=?)";
const SLICE = "SEARCH r USING PRIMARY KEY (app_number=? AND id>? AND id<?)";
let found = sampleRun();

beforeAll(async () => {
  const { projectId: id } = PROJECT;
  await projects.insert.run(session(), projects.insert.pack({ id, name: id, createdAt: 1 }));
  const app = { projectId: id, name: "app", createdAt: 1 };
  const { number: appNumber } = await apps.insertOrFind.run(session(), apps.insertOrFind.pack(app));
  found = sampleRun({ appNumber, functionName: "rare" });
  const ended = [found, sampleRun({ appNumber, state: "failure", statusCode: 500 })];
  await runs.insertFinished.run(
    session(),
    runs.insertFinished.pack([packEnded(ended.map((run) => sampleEnd(run)))]),
  );
});

test("a search of a project goes from app to app and reads a slice of each, then what it has found", async () => {
  const filter = { ...PROJECT, limit: 50, functionName: "rare" };
  const plans = await plansOf(session(), runs.pageOfProject, filter);
  expect(plans.find((plan) => plan.includes("seen"))).toBe(
    `CO-ROUTINE seen; ${APPS}; ${SLICE}; SCAN seen; USE TEMP B-TREE FOR GROUP BY`,
  );
  expect(plans.at(-1)).toContain("SEARCH r USING PRIMARY KEY (app_number=? AND id=?)");
  expect(plans.join("; ")).not.toMatch(/SCAN (?!seen|heads)/);
});

test("the app of a run is found by a look into each app", async () => {
  const plans = await plansOf(session(), runs.appOf, { projectId: PROJECT.projectId, id: found.id });
  expect(plans).toEqual([
    "SEARCH apps USING INDEX apps_by_name (project_id=?); SEARCH runs USING PRIMARY KEY (app_number=? AND id=?)",
  ]);
});

test("the traffic of apps is read slice by slice, and failures by their index", async () => {
  for (const plan of await plansOf(session(), runFigures.byApp, SPAN))
    expect(plan).toContain(`${APPS}; ${SLICE}`);
  const [failures] = await plansOf(session(), runFigures.lastFailures, { ...SPAN, limit: 10 });
  expect(failures).toContain("runs_failed (app_number=? AND id>? AND id<?)");
  expect(failures).toContain("SEARCH r USING PRIMARY KEY (app_number=? AND id=?)");
});
