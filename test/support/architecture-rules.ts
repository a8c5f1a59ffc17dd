import { importGraph, isRelative, resolveFrom, specifiersOf } from "./import-graph.ts";
import type { SourceFiles } from "./source-files.ts";

/** The rooms of `src/`, lowest layer first; rooms on one layer never import each other. */
export const LAYERS = [
  ["kit"],
  ["model", "client"],
  ["config", "shapes"],
  ["host"],
  ["engines"],
  ["store", "replicas", "blobs"],
  ["nodes"],
  ["runs", "apps", "identity"],
  ["gateway", "management"],
  ["main.ts"],
  ["cli"],
] as const;

const LAYER_OF = new Map<string, number>(
  LAYERS.flatMap((rooms, layer) => rooms.map((room) => [room, layer])),
);
const MAX_LINES = 500;
const KNOWS_ENGINES: ReadonlySet<string> = new Set(["engines", "main.ts", "cli"]);

function roomOf(path: string): string {
  return path.split("/")[1] ?? "";
}

/** Imports of `src/` that go up a layer or sideways to another room, and files outside every room. */
export function layerFaults(files: SourceFiles): string[] {
  const faults: string[] = [];
  for (const [path, targets] of importGraph(files)) {
    const room = roomOf(path);
    const layer = LAYER_OF.get(room);
    if (layer === undefined) {
      faults.push(`${path} is in no room of the house plan`);
      continue;
    }
    for (const target of targets) {
      const targetRoom = roomOf(target);
      const targetLayer = LAYER_OF.get(targetRoom) ?? Number.POSITIVE_INFINITY;
      if (targetRoom === room || targetLayer < layer) continue;
      faults.push(`${path} imports ${targetLayer === layer ? "sideways" : "upward"}: ${target}`);
    }
  }
  return faults;
}

/** Imports of an engine's own files from outside `engines`: only `main.ts`, which chooses one, and the commands that look after clusters may know which there are. */
export function engineFaults(files: SourceFiles): string[] {
  return [...importGraph(files)]
    .filter(([path]) => !KNOWS_ENGINES.has(roomOf(path)))
    .flatMap(([path, targets]) => targets.map((target) => ({ path, target })))
    .filter(({ target }) => /^src\/engines\/(?:local|container|agent|kubernetes|ray)\//.test(target))
    .map(({ path, target }) => `${path} knows an engine: ${target}`);
}

/** Imports by which the slots would learn how calls travel: they may know `kit`, `model` and each other. */
export function slotFaults(files: SourceFiles): string[] {
  return [...importGraph(files)]
    .filter(([path]) => path.startsWith("src/replicas/slots/"))
    .flatMap(([path, targets]) => targets.map((target) => ({ path, target })))
    .filter(({ target }) => !/^src\/(?:kit|model|replicas\/slots)\//.test(target))
    .map(({ path, target }) => `${path} knows more than slots: ${target}`);
}

/** What the dashboard may take from `src/`: what a browser runs too, and what says how the API looks. */
const OF_DASHBOARD: ReadonlySet<string> = new Set(["model", "client", "shapes"]);

/** Imports of `web/` from rooms of `src/` that are the service's own. */
export function dashboardFaults(files: SourceFiles): string[] {
  return [...importGraph(files)].flatMap(([path, targets]) =>
    targets
      .filter((target) => path.startsWith("web/") && target.startsWith("src/"))
      .filter((target) => !OF_DASHBOARD.has(roomOf(target)))
      .map((target) => `${path} imports what is the service's: ${target}`),
  );
}

/** Imports of `src/` that name no source file with its `.ts` ending, or a package a user will not have. */
export function specifierFaults(files: SourceFiles, dependencies: ReadonlySet<string>): string[] {
  const faults: string[] = [];
  for (const [path, text] of files) {
    for (const specifier of specifiersOf(text)) {
      if (isRelative(specifier)) {
        if (!specifier.endsWith(".ts")) faults.push(`${path} imports without .ts: ${specifier}`);
        else if (!files.has(resolveFrom(path, specifier)))
          faults.push(`${path} imports a missing file: ${specifier}`);
      } else if (!specifier.startsWith("node:") && !dependencies.has(packageOf(specifier))) {
        faults.push(`${path} imports what is not in dependencies: ${specifier}`);
      }
    }
  }
  return faults;
}

function packageOf(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

/** Files that only gather others' exports: an `index.ts`, or nothing but `export … from`. */
export function barrels(files: SourceFiles): string[] {
  return [...files]
    .filter(([path, text]) => /(?:^|\/)index\.ts$/.test(path) || isOnlyReexports(text))
    .map(([path]) => path);
}

function isOnlyReexports(text: string): boolean {
  const reexport = /^export\b[\w$\s{},*]*?\bfrom\s*["'][^"']+["'];?/gm;
  const comments = /\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm;
  return reexport.test(text) && text.replace(comments, "").replace(reexport, "").trim() === "";
}

/** Files too long to hold one idea, each with its length. */
export function longFiles(files: SourceFiles): string[] {
  return [...files]
    .map(([path, text]) => ({ path, lines: text.replace(/\n$/, "").split("\n").length }))
    .filter(({ lines }) => lines > MAX_LINES)
    .map(({ path, lines }) => `${path} has ${lines} lines, more than ${MAX_LINES}`);
}
