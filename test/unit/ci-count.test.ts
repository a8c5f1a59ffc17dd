import { accessSync, constants } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tally } from "../../.ci/count.ts";
import type { Report } from "../../.ci/count.ts";
import { REPOSITORY } from "../support/source-files.ts";

const WELL = { checks: 0, tests: 0 };
const report = (passed: number, failed: number, ...files: Report["testResults"]): Report => ({
  numPassedTests: passed,
  numFailedTests: failed,
  testResults: [{ status: "passed", assertionResults: [{}] }, ...files],
});

test("with all well, what passed is counted and nothing failed", () => {
  expect(tally(report(7, 0), WELL)).toEqual({ passed: 7, failed: 0 });
});

test("a failed test, a file that could not be loaded and failed checks each count", () => {
  expect(tally(report(7, 2), { checks: 0, tests: 1 })).toEqual({ passed: 7, failed: 2 });
  const unloaded = { status: "failed", assertionResults: [] };
  expect(tally(report(7, 0, unloaded), { checks: 0, tests: 1 })).toEqual({ passed: 7, failed: 1 });
  expect(tally(report(7, 0), { checks: 1, tests: 0 })).toEqual({ passed: 7, failed: 1 });
  expect(tally(report(7, 2, unloaded), { checks: 2, tests: 1 })).toEqual({ passed: 7, failed: 4 });
});

test("a run that ended badly, or left no report, is a failure though no test failed", () => {
  expect(tally(report(7, 0), { checks: 0, tests: 1 })).toEqual({ passed: 7, failed: 1 });
  expect(tally(null, WELL)).toEqual({ passed: 0, failed: 1 });
});

test("the script can be run as it lies in a clone", () => {
  accessSync(join(REPOSITORY, ".ci/run"), constants.X_OK);
});
