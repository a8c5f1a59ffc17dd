/** The part of vitest's JSON report that is told. */
export type Report = {
  readonly numPassedTests: number;
  readonly testResults: readonly {
    /** The file. */
    readonly name: string;
    readonly status: string;
    readonly message?: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly title: string;
      readonly status: string;
      readonly failureMessages?: readonly string[];
    }[];
  }[];
};

/** What is known of one run of the suite. */
export type RunEnd = {
  /** Null when it ended before it could write one. */
  readonly report: Report | null;
  readonly exitCode: number;
  /** All it printed. */
  readonly output: string;
  readonly seconds: number;
};

/** A test that failed, or a file or a run that ended badly though no test in it did. */
export type Failure = { readonly name: string; readonly text: string };

const LAST_LINES = 40;
const WIDTHS = [5, 9, 9, 10] as const;

/** What failed in a run; nothing for a run that went well. */
export function failuresOf({ report, exitCode, output }: RunEnd): Failure[] {
  const found: Failure[] = [];
  for (const { name, status, message = "", assertionResults } of report?.testResults ?? []) {
    const failed = assertionResults.filter((test) => test.status === "failed");
    for (const { fullName, title, failureMessages = [] } of failed) {
      const text = [...failureMessages, explanationOf(title, output)].filter((part) => part !== "");
      found.push({ name: `${name}: ${fullName}`, text: text.join("\n") });
    }
    // It could not be loaded, or what was to be cleared up after its tests was not.
    if (status === "failed" && failed.length === 0) found.push({ name, text: message });
  }
  if (found.length > 0 || (exitCode === 0 && report !== null)) return found;
  const lines = output.trimEnd().split("\n").slice(-LAST_LINES);
  return [{ name: `the run itself (exit code ${exitCode})`, text: lines.join("\n") }];
}

/** What services and pages had to say about a failed test: `test/support/explain.ts` prints it. */
function explanationOf(title: string, output: string): string {
  const begin = `--- ${title}\n`;
  const from = output.indexOf(begin);
  const to = output.indexOf("\n---\n", from);
  return from === -1 || to === -1 ? "" : output.slice(from, to);
}

/** One line for a run, under the columns of `heading`. */
export function rowOf(number: number, run: RunEnd): string {
  const { report, seconds } = run;
  return columns([
    String(number),
    String(report?.numPassedTests ?? 0),
    String(failuresOf(run).length),
    seconds.toFixed(1),
  ]);
}

/** Of the table of runs. */
export const heading = columns(["run", "passed", "failed", "seconds"]);

/** Every test that ever failed, how often and in which runs, with what it printed the first time. */
export function summaryOf(runs: readonly RunEnd[]): string {
  const byName = new Map<string, { text: string; runs: number[] }>();
  for (const [index, run] of runs.entries()) {
    for (const { name, text } of failuresOf(run)) {
      const known = byName.get(name) ?? { text, runs: [] };
      known.runs.push(index + 1);
      byName.set(name, known);
    }
  }
  if (byName.size === 0) return `nothing failed in ${runs.length} ${runs.length === 1 ? "run" : "runs"}`;
  const parts = [...byName].map(
    ([name, { text, runs: where }]) =>
      `FAILED ${where.length} of ${runs.length} (run ${where.join(", ")}): ${name}\n${indented(text)}`,
  );
  return parts.join("\n\n");
}

function indented(text: string): string {
  return text
    .split("\n")
    .map((line) => `    ${line}`)
    .join("\n");
}

function columns(words: readonly string[]): string {
  return words.map((word, index) => word.padStart(WIDTHS[index] ?? 0)).join("");
}
