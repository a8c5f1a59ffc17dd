import { accessSync, constants } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Report, tally, type TestRun } from "../../.ci/count.ts";
import { REPOSITORY } from "../support/source-files.ts";

const report = (passed: number, failed: number, ...files: Report["testResults"]): Report => ({
  numPassedTests: passed,
  numFailedTests: failed,
  testResults: [{ status: "passed", assertionResults: [{}] }, ...files],
});

const run = (of: Report | null, exitCode = 0): TestRun[] => [{ report: of, exitCode }];

test("with all well, what passed is counted and nothing failed", () => {
  expect(tally(run(report(7, 0)), 0)).toEqual({ passed: 7, failed: 0 });
});

test("a failed test, a file that could not be loaded and failed checks each count", () => {
  expect(tally(run(report(7, 2), 1), 0)).toEqual({ passed: 7, failed: 2 });
  const unloaded = { status: "failed", assertionResults: [] };
  expect(tally(run(report(7, 0, unloaded), 1), 0)).toEqual({ passed: 7, failed: 1 });
  expect(tally(run(report(7, 0), 0), 1)).toEqual({ passed: 7, failed: 1 });
  expect(tally(run(report(7, 2, unloaded), 1), 2)).toEqual({ passed: 7, failed: 4 });
});

test("a run that ended badly, or left no report, is a failure though no test failed", () => {
  expect(tally(run(report(7, 0), 1), 0)).toEqual({ passed: 7, failed: 1 });
  expect(tally(run(null), 0)).toEqual({ passed: 0, failed: 1 });
});

test("of several runs, all are counted", () => {
  const both = [...run(report(7, 1), 1), ...run(report(2, 0))];
  expect(tally(both, 1)).toEqual({ passed: 9, failed: 2 });
});

test("the script can be run as it lies in a clone", () => {
  accessSync(join(REPOSITORY, ".ci/run"), constants.X_OK);
});
