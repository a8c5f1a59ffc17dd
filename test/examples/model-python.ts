import { execFileSync, spawnSync } from "node:child_process";
import path from "node:path";
import type { TestContext } from "vitest";
import { REPOSITORY } from "../support/source-files.ts";

const MODULES = [
  "accelerate",
  "av",
  "diffusers",
  "sentence_transformers",
  "torch",
  "transformers",
  "websockets",
];
const WEIGHTS = path.join(REPOSITORY, "test/examples/weights.py");
const CACHED = ".cache/models/bin/python";

/** A Python with everything in `requirements.txt`, or null. The libraries take gigabytes, so no test installs them. */
export const modelPython: string | null =
  [process.env["MILLRACE_TEST_PYTHON"], path.join(REPOSITORY, CACHED), ...pythonsOnPath()]
    .filter((python) => python !== undefined)
    .find((python) => lackOf(python).length === 0) ?? null;

function pythonsOnPath(): string[] {
  return (process.env["PATH"] ?? "").split(path.delimiter).map((folder) => path.join(folder, "python3"));
}

/** The modules that this Python does not have. */
function lackOf(python: string): string[] {
  const ask =
    "import sys, importlib.util as u; print(*[name for name in sys.argv[1:] if u.find_spec(name) is None])";
  const { status, stdout } = spawnSync(python, ["-c", ask, ...MODULES], { encoding: "utf8" });
  return status === 0 ? stdout.trim().split(" ").filter(Boolean) : MODULES;
}

/** Skips a test where there is no such Python, and says what to do. */
export function skipWithoutModels(context: TestContext): void {
  if (modelPython !== null) return;
  const given = process.env["MILLRACE_TEST_PYTHON"];
  const lack =
    given === undefined ? "no Python here has the libraries" : `${given} lacks ${lackOf(given).join(", ")}`;
  const folder = path.dirname(path.dirname(CACHED));
  const help = `python3 -m venv ${folder} && ${folder}/bin/pip install -r test/examples/requirements.txt`;
  process.stderr.write(`\nNOT TESTED: ${context.task.name}: ${lack}. Install them (about 6 GB): ${help}\n`);
  context.skip(lack);
}

/** Makes tiny models with random weights: a kind that `weights.py` knows for each folder. */
export function makeWeights(kinds: Readonly<Record<string, string>>): void {
  if (modelPython === null) throw new Error("there is no Python with the libraries");
  const asked = Object.entries(kinds).map(([folder, kind]) => `${kind}=${folder}`);
  execFileSync(modelPython, [WEIGHTS, ...asked], { stdio: ["ignore", "ignore", "pipe"] });
}
