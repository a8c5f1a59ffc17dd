import { readFileSync } from "node:fs";

/** The part of vitest's JSON report that counts. */
export type Report = {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly testResults: readonly { readonly status: string; readonly assertionResults: readonly object[] }[];
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
  process.stdout.write(`${passed} passed, ${failed} failed\n`);
  process.exitCode = failed === 0 ? 0 : 1;
}
