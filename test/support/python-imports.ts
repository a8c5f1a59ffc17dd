import { posix } from "node:path";
import type { ImportGraph } from "./import-graph.ts";
import type { SourceFiles } from "./source-files.ts";

const FROM_PACKAGE = /^[ \t]*from \. import ([\w, ]+)/gm;
const FROM_MODULE = /^[ \t]*from \.(\w+) import /gm;

/** Who imports whom among the modules of a Python package, inside functions too. */
export function pythonGraph(files: SourceFiles): ImportGraph {
  const graph = new Map<string, readonly string[]>();
  for (const [path, text] of files) {
    const names = [
      ...[...text.matchAll(FROM_PACKAGE)].flatMap(([, list = ""]) =>
        list.split(",").map((item) => item.trim().split(" ")[0] ?? ""),
      ),
      ...[...text.matchAll(FROM_MODULE)].map(([, name = ""]) => name),
    ];
    const targets = names.map((name) => posix.join(posix.dirname(path), `${name}.py`));
    graph.set(
      path,
      [...new Set(targets)].filter((target) => files.has(target)),
    );
  }
  return graph;
}
