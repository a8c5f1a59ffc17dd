import { posix } from "node:path";
import { type SourceFiles, withoutCommentLines } from "./source-files.ts";

/** Path → the paths it imports, types and worker threads included. */
export type ImportGraph = ReadonlyMap<string, readonly string[]>;

// The middle allows only what an import clause may hold, so that no other statement is taken for one.
const CLAUSE = /^[ \t]*(?:import|export)\b[\w$\s{},*]*?\bfrom\s*["']([^"']+)["']/gm;
const SIDE_EFFECT = /^[ \t]*import\s*["']([^"']+)["']/gm;
const DYNAMIC = /\bimport\s*\(\s*["'`]([^"'`]+)["'`]/g;
const MODULE_URL = /\bnew URL\(([\s\S]{1,300}?),\s*import\.meta\.url\s*,?\s*\)/g;
const RELATIVE_LITERAL = /["'`](\.{1,2}\/[^"'`]+)["'`]/g;

/** What a module names in its imports, as written; a `new URL` counts when it names a TypeScript file. */
export function specifiersOf(text: string): string[] {
  const code = withoutCommentLines(text);
  const specifiers = [CLAUSE, SIDE_EFFECT, DYNAMIC].flatMap((pattern) =>
    [...code.matchAll(pattern)].map((match) => match[1] ?? ""),
  );
  for (const [, argument = ""] of code.matchAll(MODULE_URL)) {
    for (const [, literal = ""] of argument.matchAll(RELATIVE_LITERAL)) {
      // A file started both from sources and from dist has an ending decided at run time.
      const specifier = literal.replace(/\$\{[^}]*\}$/, ".ts").replace(/\.\.ts$/, ".ts");
      if (specifier.endsWith(".ts")) specifiers.push(specifier);
    }
  }
  return specifiers;
}

/** Whether a specifier names a file of this repository. */
export function isRelative(specifier: string): boolean {
  return specifier.startsWith("./") || specifier.startsWith("../");
}

/** The repository path a relative specifier of `path` means. */
export function resolveFrom(path: string, specifier: string): string {
  return posix.join(posix.dirname(path), specifier);
}

/** Who imports whom among `files`. */
export function importGraph(files: SourceFiles): ImportGraph {
  const graph = new Map<string, readonly string[]>();
  for (const [path, text] of files) {
    const targets = specifiersOf(text)
      .filter(isRelative)
      .map((specifier) => resolveFrom(path, specifier));
    graph.set(
      path,
      [...new Set(targets)].filter((target) => files.has(target)),
    );
  }
  return graph;
}

/** At least one circle of every knot of files that import each other, written `a → b → a`. */
export function findCircles(graph: ImportGraph): string[] {
  const circles: string[] = [];
  const done = new Set<string>();
  const trail: string[] = [];
  const visit = (path: string): void => {
    const start = trail.indexOf(path);
    if (start >= 0) {
      circles.push([...trail.slice(start), path].join(" → "));
      return;
    }
    if (done.has(path)) return;
    trail.push(path);
    for (const target of graph.get(path) ?? []) visit(target);
    trail.pop();
    done.add(path);
  };
  for (const path of graph.keys()) visit(path);
  return circles;
}
