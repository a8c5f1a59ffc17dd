import { readFileSync } from "node:fs";

/** The part of vitest's JSON report that counts. */
export type Report = {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly testResults: readonly { readonly status: string; readonly assertionResults: readonly object[] }[];
};

/** One run of tests: what it wrote, if it did, and how it ended. */
export type TestRun = { readonly report: Report | null; readonly exitCode: number };

type Tally = { passed: number; failed: number };

/** How many passed and failed, of all runs together. Checks that failed count as one failure. */
export function tally(runs: readonly TestRun[], checks: number): Tally {
  const all = runs.map(tallyRun);
  return {
    passed: all.reduce((sum, { passed }) => sum + passed, 0),
    failed: all.reduce((sum, { failed }) => sum + failed, checks === 0 ? 0 : 1),
  };
}

/**
 * A test file that could not be loaded counts as one failure, and so does a test run that ended badly though no single
 * test did.
 */
function tallyRun({ report, exitCode }: TestRun): Tally {
  const unloaded = (report?.testResults ?? []).filter(
    ({ status, assertionResults }) => status === "failed" && assertionResults.length === 0,
  );
  const inTests = (report?.numFailedTests ?? 0) + unloaded.length;
  const unseen = inTests === 0 && (exitCode !== 0 || report === null) ? 1 : 0;
  return { passed: report?.numPassedTests ?? 0, failed: inTests + unseen };
}

function readReport(path: string): Report | null {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Report;
  } catch {
    return null; // The run ended before it could write one.
  }
}

if (import.meta.main) {
  // How the checks ended, then of each run of tests its report and how it ended.
  const [checks = "1", ...rest] = process.argv.slice(2);
  const runs: TestRun[] = [];
  for (let at = 0; at < rest.length; at += 2)
    runs.push({ report: readReport(rest[at] ?? ""), exitCode: Number(rest[at + 1] ?? 1) });
  const { passed, failed } = tally(runs, Number(checks));
  process.stdout.write(`${passed} passed, ${failed} failed\n`);
  process.exitCode = failed === 0 ? 0 : 1;
}
