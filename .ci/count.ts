import { readFileSync } from "node:fs";

/** The part of vitest's JSON report that counts. */
export type Report = {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly testResults: readonly { readonly status: string; readonly assertionResults: readonly Test[] }[];
};

type Test = {
  readonly fullName: string;
  readonly status: string;
  /** Of every try. */
  readonly failureMessages: readonly string[];
};

/**
 * How many passed and failed. A test file that could not be loaded counts as one failure, so do checks that
 * failed, and so does a test run that ended badly though no single test did.
 */
export function tally(
  report: Report | null,
  exitCodes: { readonly checks: number; readonly tests: number },
): { passed: number; failed: number } {
  const unloaded = (report?.testResults ?? []).filter(
    ({ status, assertionResults }) => status === "failed" && assertionResults.length === 0,
  );
  const inTests = (report?.numFailedTests ?? 0) + unloaded.length;
  const unseen = inTests === 0 && (exitCodes.tests !== 0 || report === null) ? 1 : 0;
  const checks = exitCodes.checks === 0 ? 0 : 1;
  return { passed: report?.numPassedTests ?? 0, failed: inTests + unseen + checks };
}

/** What failed and then passed: a machine that was busy, or a test that should be mended. */
export function secondTries(report: Report | null): string[] {
  return (report?.testResults ?? [])
    .flatMap(({ assertionResults }) => assertionResults)
    .filter(({ status, failureMessages }) => status === "passed" && failureMessages.length > 0)
    .map(
      ({ fullName, failureMessages }) =>
        `passed at the second try: ${fullName}\n  ${firstLines(failureMessages[0])}\n`,
    );
}

function firstLines(message = ""): string {
  return message.split("\n").slice(0, 2).join("\n  ");
}

function readReport(path: string): Report | null {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Report;
  } catch {
    return null; // The run ended before it could write one.
  }
}

if (import.meta.main) {
  const [path = "", checks = "1", tests = "1"] = process.argv.slice(2);
  const report = readReport(path);
  const { passed, failed } = tally(report, { checks: Number(checks), tests: Number(tests) });
  for (const line of secondTries(report)) process.stdout.write(line);
  process.stdout.write(`${passed} passed, ${failed} failed\n`);
  process.exitCode = failed === 0 ? 0 : 1;
}
