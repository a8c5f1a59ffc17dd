import path from "node:path";
import { type BuildSite, severalProblems } from "./site.ts";
import { insideBundle, readBundleText } from "./bundle-files.ts";
import { readRequirement, requirementLines, tableRequirement } from "./requirement-line.ts";
import type { RequirementFlag, RequirementLine } from "./requirement-line.ts";

/** Python packages an app asks for, every line of it checked. */
export type Requirements = {
  /** Where they are listed, for messages. */
  readonly source: string;
  /** By name or address, sorted, each once. */
  readonly packages: readonly string[];
  readonly constraints: readonly string[];
  /** Files and folders of the bundle that are packages. */
  readonly locals: readonly LocalPackage[];
  /** Folders of the bundle where packages are looked for. */
  readonly links: readonly BundlePath[];
  readonly flags: readonly RequirementFlag[];
};

export type BundlePath = { readonly name: string; readonly fullPath: string };
type LocalPackage = BundlePath & { readonly after: string };
type FileKind = "requirements" | "constraints";

/** The file that clients make of `[dependencies.pip]`. */
const GENERATED = "requirements.txt";
const MAX_FILES = 100;

/** The packages to install, null for none; throws a `BuildError` with everything that is wrong with them. */
export async function readRequirements(site: BuildSite): Promise<Requirements | null> {
  const { dependencies } = site.config;
  const reading = new Reading(site.bundleDir);
  const table = Object.entries(dependencies.pip);
  let source = "[dependencies.pip]";
  if (dependencies.paths.pip !== null || table.length === 0) {
    source = dependencies.paths.pip ?? GENERATED;
    await reading.file(source, "requirements", dependencies.paths.pip !== null);
  } else {
    for (const [name, spec] of table)
      await reading.line(tableRequirement(name, spec), "requirements", source, "");
  }
  if (reading.problems.length > 0) throw severalProblems(reading.problems, site);
  const { packages, constraints, locals, links, flags } = reading;
  if (packages.size + locals.size === 0) return null;
  return {
    source,
    packages: [...packages].toSorted(),
    constraints: [...constraints].toSorted(),
    locals: [...locals.values()].toSorted(byName),
    links: [...links.values()].toSorted(byName),
    flags: [...flags].toSorted(),
  };
}

class Reading {
  readonly packages = new Set<string>();
  readonly constraints = new Set<string>();
  readonly locals = new Map<string, LocalPackage>();
  readonly links = new Map<string, BundlePath>();
  readonly flags = new Set<RequirementFlag>();
  readonly problems: string[] = [];
  readonly #bundleDir: string;
  readonly #seen = new Set<string>();

  constructor(bundleDir: string) {
    this.#bundleDir = bundleDir;
  }

  /** Reads a file of the bundle and those it names, each once. */
  async file(name: string, kind: FileKind, isNeeded: boolean): Promise<void> {
    const key = `${kind} ${path.normalize(name)}`;
    if (this.#seen.has(key) || this.#seen.size >= MAX_FILES) return;
    this.#seen.add(key);
    const text = await readBundleText(this.#bundleDir, name);
    if (text === null) {
      if (isNeeded) this.problems.push(`${name}: there is no such file in the bundle`);
      return;
    }
    for (const line of requirementLines(text))
      await this.line(line.text, kind, `${name} line ${line.number}`, path.dirname(name));
  }

  async line(text: string, into: FileKind, where: string, folder: string): Promise<void> {
    const line: RequirementLine = readRequirement(text);
    const problem = (why: string): void =>
      void this.problems.push(`${where}: "${withoutPassword(text)}" ${why}`);
    if (line.kind === "refused") problem(line.why);
    else if (line.kind === "flag") this.flags.add(line.flag);
    else if (line.kind === "package")
      (into === "requirements" ? this.packages : this.constraints).add(line.text);
    else {
      const found = await this.#find(folder, line.path);
      if (!found) return problem("names a path that is not in the bundle");
      if (line.kind === "links") this.links.set(found.name, found);
      else if (line.kind !== "local") await this.file(found.name, line.kind, true);
      else if (into === "constraints") problem("is a package file, which cannot be a constraint");
      else this.locals.set(found.name, { ...found, after: line.after });
    }
  }

  /** Beside the file that names it, else from the bundle's root: installers do not agree on one of them. */
  async #find(folder: string, name: string): Promise<BundlePath | null> {
    for (const candidate of [path.join(folder, name), path.normalize(name)]) {
      const fullPath = await insideBundle(this.#bundleDir, candidate);
      if (fullPath !== null) return { name: candidate, fullPath };
    }
    return null;
  }
}

/** A line that names a package, cut and without the password of an address. */
export function withoutPassword(text: string): string {
  const shown = text.replaceAll(/\/\/[^/@\s]+@/g, "//…@");
  return shown.length > 200 ? `${shown.slice(0, 200)}…` : shown;
}

function byName(a: BundlePath, b: BundlePath): number {
  return a.name < b.name ? -1 : 1;
}
