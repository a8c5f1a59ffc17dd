import { type SourceFiles, withoutCommentLines } from "./source-files.ts";

/** What no test may do, by name: what it looks like, and what to do instead. */
const TEST_RULES = {
  "second-try": {
    pattern: /\bretry:\s*\d+\s*[,}]/,
    instead: "a test fails when something is broken: mend the test or the code",
  },
  sleep: {
    pattern:
      /(?<![.\w])(?:setTimeout|setInterval|sleep)\s*\(|\bsetTimeout\b.*timers\/promises|\bscheduler\.wait\b/,
    instead: "await the state's own signal, `until` it holds (test/support/until.ts), or move a clock",
  },
  stopwatch: {
    pattern: /performance\.now\b|\bhrtime\b|Date\.now\(\)\s*-|-\s*Date\.now\(\)/,
    instead: "assert events, their order, or a clock that you move; what is about speed is for npm run bench",
  },
  deadline: {
    pattern: /\bwithinMs\b|AbortSignal\.timeout\(|\btimeout:\s*[\d_]+|\},\s*[\d_]{4,},?\s*\)/,
    instead: "the one deadline of a test is its project's",
  },
  memory: {
    pattern: /memoryUsage\(\)\.rss|memoryUsage\.rss/,
    instead: "count what is kept (test/support/retained-bytes.ts): the rest is the process's past",
  },
} as const;

type TestRule = keyof typeof TEST_RULES;

/** A use of something forbidden that is right where it is, and why. */
export type Allowance = { readonly file: string; readonly rule: TestRule; readonly why: string };

/** Where the rules are broken, one line each, except where that is allowed. */
export function brokenRules(files: SourceFiles, allowed: readonly Allowance[]): string[] {
  return breaches(files)
    .filter(({ file, rule }) => !allowed.some((each) => each.file === file && each.rule === rule))
    .map(({ file, line, rule }) => `${file}:${line}: ${rule}: ${TEST_RULES[rule].instead}`);
}

/** Allowances that nothing makes use of. */
export function needlessAllowances(files: SourceFiles, allowed: readonly Allowance[]): string[] {
  const found = breaches(files);
  return allowed
    .filter(({ file, rule }) => !found.some((each) => each.file === file && each.rule === rule))
    .map(({ file, rule }) => `${file}: ${rule}`);
}

function breaches(files: SourceFiles): { file: string; line: number; rule: TestRule }[] {
  const rules = Object.keys(TEST_RULES) as TestRule[];
  return [...files].flatMap(([file, text]) => {
    const code = withoutCommentLines(text);
    return rules.flatMap((rule) =>
      [...code.matchAll(new RegExp(TEST_RULES[rule].pattern, "g"))].map(({ index }) => ({
        file,
        line: code.slice(0, index).split("\n").length,
        rule,
      })),
    );
  });
}
