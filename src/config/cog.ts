import { parseDocument } from "yaml";
import { type AppConfig, isGpu } from "../model/app-config.ts";
import type { Layer } from "./app-shape.ts";
import { type Problems, showKey } from "./problems.ts";
import { isTable, type RawTable } from "./toml.ts";

/** The file that makes a folder without `main.py` a Cog model. */
export const COG_FILE = "cog.yaml";

/** A model packed for Cog, as its `cog.yaml` says. */
export type CogModel = {
  /** The Python file, from the bundle's root. */
  readonly file: string;
  /** The class or function in it that answers predictions. */
  readonly name: string;
  /** What of it configures the app, weaker than any file of ours. */
  readonly layer: Layer;
  /** Keys that have no effect here. */
  readonly notUsed: readonly string[];
};

/** A file and a class, both harmless inside a Python string and a message. */
const REFERENCE = /^((?:[\w.-]+\/)*[\w.-]+\.py):([A-Za-z_]\w*)$/;
const MAX_REFERENCE_CHARS = 256;
const MAX_PACKAGES = 1000;
/** Keys that are not used and are named. */
const MAX_NAMED = 20;

/** Reads a `cog.yaml`; null, with what is wrong with it on the list, if it cannot be used. */
export function readCog(text: string, problems: Problems): CogModel | null {
  const root = parseYaml(text, problems);
  if (root === null) return null;
  const { build = null, concurrency = null, predict, run, ...others } = root;
  const reading = new Reading(problems);
  const reference = reading.reference(predict, run);
  reading.build(reading.table("build", build));
  reading.concurrency(reading.table("concurrency", concurrency));
  reading.ignore(others, "");
  const { values, notUsed } = reading;
  // With a fault on the list the model is not used, but the rest of the configuration is still checked.
  const { file, name } = reference ?? { file: "", name: "" };
  return { file, name, layer: ({ path }) => values.get(path), notUsed };
}

/** What a folder was taken for, in one line. */
export function describeCog({ file, name, notUsed }: CogModel, config: AppConfig): string {
  const { deployment, dependencies, hardware, scaling } = config;
  const count = Object.keys(dependencies.pip).length;
  const taken = [`a Cog model: ${file}:${name}`];
  if (deployment.pythonVersion !== null) taken.push(`Python ${deployment.pythonVersion}`);
  if (dependencies.paths.pip !== null) taken.push(`packages of ${dependencies.paths.pip}`);
  else if (count > 0) taken.push(count === 1 ? "1 package" : `${count} packages`);
  if (hardware.compute.some(isGpu)) taken.push("a GPU");
  if (scaling.replicaConcurrency > 1) taken.push(`${scaling.replicaConcurrency} calls at a time`);
  const named = notUsed.slice(0, MAX_NAMED);
  if (notUsed.length > named.length) named.push(`and ${notUsed.length - named.length} more`);
  return `${taken.join(", ")}${named.length === 0 ? "" : `; not used: ${named.join(", ")}`}`;
}

/** The `main.py` of a Cog model. */
export function cogMain({ file, name }: CogModel): string {
  return `# Written by Millrace at the deploy, because the folder has a ${COG_FILE} and no main.py.
from millrace_cog import serve

__all__ = ["run", "setup"]

setup, run = serve(${JSON.stringify(file)}, ${JSON.stringify(name)})
`;
}

class Reading {
  readonly values = new Map<string, { readonly name: string; readonly raw: unknown }>();
  readonly notUsed: string[] = [];
  readonly #problems: Problems;

  constructor(problems: Problems) {
    this.#problems = problems;
  }

  /** Newer releases of Cog call the key `run`. */
  reference(predict: unknown, run: unknown): Pick<CogModel, "file" | "name"> | null {
    if (predict !== undefined && run !== undefined) {
      this.#problems.add(`${COG_FILE} has both predict and run: remove one of them`);
      return null;
    }
    const given = predict ?? run;
    const key = run === undefined ? "predict" : "run";
    const [, file, name] = typeof given === "string" ? (REFERENCE.exec(given) ?? []) : [];
    if (file !== undefined && name !== undefined && `${file}:${name}`.length <= MAX_REFERENCE_CHARS)
      if (!file.split("/").includes("..")) return { file, name };
    if (given === undefined)
      this.#problems.add(
        `${COG_FILE} has no key predict, which names the model's class, such as predict.py:Predictor`,
      );
    else
      this.#problems.misfit(
        named(key),
        "a Python file of this folder and a class, such as predict.py:Predictor",
        given,
      );
    return null;
  }

  /** A table; an empty one for what is absent, or is none, which is a problem. */
  table(key: string, raw: unknown): RawTable {
    if (isTable(raw)) return raw;
    if (raw !== null) this.#problems.misfit(named(key), "a table", raw);
    return {};
  }

  build({
    python_version: python,
    python_packages: packages,
    python_requirements: file,
    gpu,
    ...others
  }: RawTable): void {
    if (isGiven(python)) this.#use("deployment.python_version", "build.python_version", python);
    if (isGiven(packages)) this.#packages(packages);
    if (isGiven(file)) this.#use("dependencies.paths.pip", "build.python_requirements", file);
    if (gpu === true) this.#use("hardware.compute", "build.gpu", "ANY");
    else if (isGiven(gpu)) this.#problems.misfit(named("build.gpu"), "true or false", gpu);
    this.ignore(others, "build.");
  }

  concurrency({ max, ...others }: RawTable): void {
    if (isGiven(max)) this.#use("scaling.replica_concurrency", "concurrency.max", max);
    this.ignore(others, "concurrency.");
  }

  ignore(table: RawTable, prefix: string): void {
    for (const [key, value] of Object.entries(table))
      if (isGiven(value)) this.notUsed.push(showKey(`${prefix}${key}`));
  }

  /** Lines of a requirements file, as the table that they stand for. */
  #packages(given: unknown): void {
    const key = named("build.python_packages");
    const lines = Array.isArray(given) && given.length <= MAX_PACKAGES ? (given as unknown[]) : null;
    if (lines === null || !lines.every((line) => typeof line === "string")) {
      this.#problems.misfit(key, `a list of up to ${MAX_PACKAGES} requirements such as numpy==2.1.0`, given);
      return;
    }
    const table = new Map<string, string>();
    for (const line of lines) {
      const [name, spec] = splitRequirement(line.trim());
      if (table.has(name)) this.#problems.add(`${key} has ${showKey(name)} twice: remove one of them`);
      table.set(name, spec);
    }
    this.#use("dependencies.pip", "build.python_packages", Object.fromEntries(table));
  }

  #use(path: string, key: string, raw: unknown): void {
    this.values.set(path, { name: named(key), raw });
  }
}

function named(key: string): string {
  return `${COG_FILE}: ${key}`;
}

/** Templates of Cog write keys without a value. */
function isGiven(value: unknown): boolean {
  if (value === undefined || value === null || value === false) return false;
  return !(Array.isArray(value) && value.length === 0);
}

/** A name with its extras, and what follows it; an address is its own name. */
function splitRequirement(line: string): readonly [name: string, spec: string] {
  if (/^[a-z0-9+.-]+:\/\//i.test(line)) return [line, ""];
  const [, name = line, spec = ""] = /^([\w.-]+(?:\s*\[[^\]]*\])?)\s*@?\s*(.*)$/s.exec(line) ?? [];
  return [name, spec];
}

/** More of any of these only serves to keep the parser busy, which holds up the service meanwhile. */
const MAX_BYTES = 16 * 1024;
const MAX_BRACKETS = 200;
const MAX_ALIASES = 100;
/** Keys that are lists or tables themselves, and lists in lists in lists. */
const ODD_LINE = /^[ \t]*(?:[-:][ \t]+)*\?(?:[ \t]|$)|^[ \t]*(?:-[ \t]+){8}/m;

/** What is too much for a parse; null if nothing is. */
function whyTooMuch(text: string): string | null {
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_BYTES) return `${COG_FILE} must be at most ${MAX_BYTES} bytes, got ${bytes}`;
  if (text.split(/[[{]/).length - 1 <= MAX_BRACKETS && !ODD_LINE.test(text)) return null;
  return `${COG_FILE} must be a plain table of keys, with at most ${MAX_BRACKETS} brackets`;
}

function parseYaml(text: string, problems: Problems): RawTable | null {
  let root: unknown;
  const excess = whyTooMuch(text);
  if (excess !== null) {
    problems.add(excess);
    return null;
  }
  try {
    const document = parseDocument(text, { schema: "core", logLevel: "silent" });
    const [fault] = document.errors;
    if (fault) {
      // Its further lines show the file, which may hold a password.
      const [summary = ""] = fault.message.split("\n", 1);
      problems.add(`${COG_FILE} is not valid YAML: ${summary.replace(/:$/, "")}`);
      return null;
    }
    root = document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch {
    problems.add(`${COG_FILE} cannot be read: it is nested too deeply, or has too many aliases`);
    return null;
  }
  if (isTable(root)) return root;
  problems.misfit(COG_FILE, "a table with the keys build and predict", root);
  return null;
}
