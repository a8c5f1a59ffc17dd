import type { Requirement } from "../requirements/row.ts";
import { BY_NAME, EVERY_TIME } from "./projects.ts";
import { type SourceFiles, withoutCommentLines } from "./source-files.ts";

/** What tests say they verify, and the calls whose ids cannot be read from the source. */
export type Claims = { readonly ids: ReadonlySet<string>; readonly unreadable: readonly string[] };

// Not after a letter or a dot: `notverifies(` is another function.
const CALL = /(?<![\w.])verifies\(\s*(?:"([^"]+)"|\[([^\]]*)\]|(\S))/g;

/** Reads the ids of every `verifies(…)` call. */
export function readClaims(files: SourceFiles): Claims {
  const ids = new Set<string>();
  const unreadable: string[] = [];
  for (const [path, text] of files) {
    for (const [, one, several] of withoutCommentLines(text).matchAll(CALL)) {
      const found =
        one === undefined ? [...(several ?? "").matchAll(/"([^"]+)"/g)].map((m) => m[1] ?? "") : [one];
      // Anything beside literals in the list would be a promise that nobody checks.
      const rest = (several ?? "").replaceAll(/"[^"]*"|[\s,]/g, "");
      if (found.length === 0 || rest !== "") unreadable.push(path);
      for (const id of found) ids.add(id);
    }
  }
  return { ids, unreadable };
}

/** The differences between what is promised and what is tested, one line each. */
export type Gaps = {
  /** Promised, and no test. */
  readonly untested: readonly string[];
  /** Tested, and promised nowhere. */
  readonly unknown: readonly string[];
};

/** Compares the rows with the ids that tests claim. */
export function findGaps(rows: Readonly<Record<string, Requirement>>, ids: ReadonlySet<string>): Gaps {
  return {
    untested: Object.entries(rows)
      .filter(([id]) => !ids.has(id))
      .map(([id, row]) => `${id} (${row.source}): ${row.behaviour}`),
    unknown: [...ids].filter((id) => !Object.hasOwn(rows, id)),
  };
}

/** Test files that no command runs: below no folder that is a project of `vitest.config.ts`. */
export function neverRun(tests: SourceFiles): string[] {
  const projects: ReadonlySet<string> = new Set([...EVERY_TIME, ...BY_NAME]);
  return [...tests.keys()].filter((path) => !projects.has(path.split("/")[1] ?? ""));
}

/** Sources of rows that are neither the seed, nor the contract, nor a heading of a document that is there. */
export function unknownSources(
  rows: Readonly<Record<string, Requirement>>,
  documents: SourceFiles,
): string[] {
  const sources = new Set(Object.values(rows).map(({ source }) => source));
  return [...sources].filter((source) => {
    if (/^(?:seed|contract \d): \S/.test(source)) return false;
    const [path = "", heading] = source.split(": ", 2);
    const text = documents.get(path);
    if (text === undefined) return true;
    return heading !== undefined && !text.split("\n").includes(`## ${heading}`);
  });
}

/** Tests that are written and do not run, or that keep all others from running. */
export function switchedOff(files: SourceFiles): string[] {
  return [...files]
    .filter(([, text]) =>
      /(?<!["'`\w])(?:test|it|describe|suite)\.(?:skip|only|todo)\b/.test(withoutCommentLines(text)),
    )
    .map(([path]) => path);
}
