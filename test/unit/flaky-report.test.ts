import { expect, test } from "vitest";
import { failuresOf, heading, rowOf, summaryOf } from "../../scripts/flaky-report.ts";
import type { Report, RunEnd } from "../../scripts/flaky-report.ts";

type File = Report["testResults"][number];

const passed = (title: string) => ({ fullName: `group ${title}`, title, status: "passed" });
const failed = (title: string, message: string) => ({
  fullName: `group ${title}`,
  title,
  status: "failed",
  failureMessages: [message],
});
const file = (name: string, tests: File["assertionResults"], status = "passed", message = ""): File => ({
  name,
  status,
  message,
  assertionResults: tests,
});
const run = (files: readonly File[], more: Partial<RunEnd> = {}): RunEnd => ({
  report: { numPassedTests: 7, testResults: files },
  exitCode: 0,
  output: "",
  seconds: 61.25,
  ...more,
});
const WELL = run([file("a.test.ts", [passed("one")])]);

test("runs that went well have no failures, and the summary says so", () => {
  expect(failuresOf(WELL)).toEqual([]);
  expect(summaryOf([WELL, WELL])).toBe("nothing failed in 2 runs");
  expect(summaryOf([WELL])).toBe("nothing failed in 1 run");
});

test("a failed test is named with its file, its messages and what was printed to explain it", () => {
  const tests = [passed("one"), failed("two", "Error: late")];
  const output = "noise\n--- other\nnothing\n---\n--- two\nthe service's log:\nline\n---\nmore\n";
  const [failure, ...others] = failuresOf(run([file("a.test.ts", tests, "failed")], { exitCode: 1, output }));
  expect(others).toEqual([]);
  expect(failure?.name).toBe("a.test.ts: group two");
  expect(failure?.text).toBe("Error: late\n--- two\nthe service's log:\nline");
});

test("a file that fails though none of its tests does, and a run that ends badly without a word, are failures", () => {
  const unloaded = file("b.test.ts", [], "failed", "SyntaxError");
  expect(failuresOf(run([unloaded], { exitCode: 1 }))).toEqual([{ name: "b.test.ts", text: "SyntaxError" }]);
  const unclean = file("c.test.ts", [passed("one")], "failed", "left behind");
  expect(failuresOf(run([unclean], { exitCode: 1 }))).toEqual([{ name: "c.test.ts", text: "left behind" }]);
  const output = "first\nunhandled\n";
  for (const bad of [run([], { exitCode: 1, output }), run([], { report: null, output })]) {
    expect(failuresOf(bad)).toMatchObject([{ text: "first\nunhandled" }]);
  }
});

test("the table has a row for each run, and the summary each test once with the runs in which it failed", () => {
  const bad = run([file("a.test.ts", [failed("two", "Error: late")], "failed")], { exitCode: 1 });
  expect([heading, rowOf(1, WELL), rowOf(12, bad)]).toEqual([
    "  run   passed   failed   seconds",
    "    1        7        0      61.3",
    "   12        7        1      61.3",
  ]);
  const worse = run([file("a.test.ts", [failed("two", "Error: again"), failed("three", "Error")], "failed")]);
  expect(summaryOf([bad, WELL, worse])).toBe(
    [
      "FAILED 2 of 3 (run 1, 3): a.test.ts: group two",
      "    Error: late",
      "",
      "FAILED 1 of 3 (run 3): a.test.ts: group three",
      "    Error",
    ].join("\n"),
  );
});
