import { expect, test } from "vitest";
import { uuidv7 } from "../../support/ids.ts";
import { FIRST_TAG, logIdAt } from "../../../src/model/log-line.ts";
import { logs } from "../../../src/store/apps/logs.ts";
import { plansOf } from "../../support/query-plan.ts";
import { sqliteSession } from "../../support/sqlite-session.ts";

const session = sqliteSession();

const place = logIdAt(1n, FIRST_TAG);
const scan = { appNumber: 1, direction: "backward", limit: 10, scanLimit: 20 } as const;

test.each([
  [{}, "USING PRIMARY KEY (app_number=?)"],
  [{ search: "x", after: place, before: place }, "USING PRIMARY KEY (app_number=? AND id>? AND id<?)"],
  [{ runId: uuidv7(1) }, "USING INDEX log_lines_by_run (app_number=? AND run_id=?)"],
  [{ runId: uuidv7(1), after: place }, "USING INDEX log_lines_by_run (app_number=? AND run_id=? AND id>?)"],
])("a scan with %j reads no more than it looks at, in order", async (query, plan) => {
  const [steps = ""] = await plansOf(session(), logs.scan, { ...scan, ...query });
  expect(steps).toContain(`SEARCH log_lines ${plan}`);
  // What is sorted is only what has been looked at already.
  expect(steps.split("MATERIALIZE scanned")[1]?.split(";")[2]).not.toContain("B-TREE");
});

test("what is oldest is found by its age", async () => {
  expect((await plansOf(session(), logs.removeOldest, { limit: 10 }))[0]).toContain("log_lines_by_age");
  expect((await plansOf(session(), logs.expire, { before: 1, limit: 10 }))[0]).toContain(
    "log_lines_by_age (id<?)",
  );
  expect((await plansOf(session(), logs.last, undefined))[0]).toContain("log_lines_by_age");
});
