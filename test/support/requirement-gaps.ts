import type { Requirement } from "../requirements/row.ts";
import { EVERY_TIME } from "./projects.ts";
import type { SourceFiles } from "./source-files.ts";
import { withoutCommentLines } from "./source-files.ts";

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
  /** Promised now, and no test. */
  readonly untested: readonly string[];
  /** Still marked `later`, and tested already. */
  readonly alreadyTested: readonly string[];
  /** Tested, and promised nowhere. */
  readonly unknown: readonly string[];
};

/** Compares the rows with the ids that tests claim. */
export function findGaps(rows: Readonly<Record<string, Requirement>>, ids: ReadonlySet<string>): Gaps {
  const line = ([id, row]: readonly [string, Requirement]) => `${id} (${row.source}): ${row.behaviour}`;
  const entries = Object.entries(rows);
  return {
    untested: entries.filter(([id, row]) => row.later === undefined && !ids.has(id)).map(line),
    alreadyTested: entries.filter(([id, row]) => row.later !== undefined && ids.has(id)).map(line),
    unknown: [...ids].filter((id) => !Object.hasOwn(rows, id)),
  };
}

/** Ids by the project whose tests alone try them. */
type TriedByName = Readonly<Record<string, readonly string[]>>;

/** How what `npm test` leaves out differs from what is said to be left out, one line each. */
export function findLeftOut(
  rows: Readonly<Record<string, Requirement>>,
  tests: SourceFiles,
  triedByName: TriedByName,
): string[] {
  const idsBelow = (projects: readonly string[]): ReadonlySet<string> =>
    readClaims(
      new Map([...tests].filter(([path]) => projects.some((name) => path.startsWith(`test/${name}/`)))),
    ).ids;
  const everyTime = idsBelow(EVERY_TIME);
  const named = Object.entries(triedByName);
  const known = new Set(named.flatMap(([, ids]) => ids));
  const wrong = named.flatMap(([project, ids]) => {
    const there = idsBelow([project]);
    return ids.flatMap((id) => [
      ...(there.has(id) ? [] : [`${id}: no test below test/${project}/`]),
      ...(everyTime.has(id) ? [`${id}: npm test tries it`] : []),
    ]);
  });
  const leftOut = Object.entries(rows)
    .filter(([id, row]) => row.later === undefined && !everyTime.has(id) && !known.has(id))
    .map(([id, row]) => `${id}: npm test does not try it (${row.behaviour})`);
  return [...leftOut, ...wrong];
}

/** Tests that are written and do not run, or that keep all others from running. */
export function switchedOff(files: SourceFiles): string[] {
  return [...files]
    .filter(([, text]) =>
      /(?<!["'`\w])(?:test|it|describe|suite)\.(?:skip|only|todo)\b/.test(withoutCommentLines(text)),
    )
    .map(([path]) => path);
}
