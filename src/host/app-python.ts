import { existsSync, mkdirSync, realpathSync, symlinkSync } from "node:fs";
import { createHash } from "node:crypto";
import path from "node:path";
import type { PythonWish } from "../model/app-config.ts";
import { hostPythonBehind, pythonFor } from "./host-pythons.ts";
import type { WallLevel } from "./walls/walls.ts";

export type AppPython = {
  /** The program to start: an interpreter of the host, or the one in the app's environment. */
  readonly program: string;
  /** The host's interpreter behind it; null if the environment has its own. */
  readonly interpreter: string | null;
  /** The first folders on its PATH, so that `python` is this one. */
  readonly path: readonly string[];
  /** The folder of those that the service made. */
  readonly names: string | null;
};

/** For an app in an image or on another machine, which has its own Python. */
export const PYTHON_ELSEWHERE: AppPython = { program: "python3", interpreter: null, path: [], names: null };

/** The app asks for a Python that the host does not have. */
export function missingPython(version = ""): string {
  return `the host has no Python ${version}, which its python_version names: install it, or deploy the app for another`;
}

/** Exit codes of shells and keepers if a program could not be run. */
const NOT_RUN = [126, 127];

/** Explains why a program behind walls did not find its interpreter, if it ended like that; null otherwise. */
export function hiddenPython(
  { program, interpreter }: AppPython,
  code: number | null,
  walls: { readonly level: WallLevel; readonly dataDir: string } | null,
): string | null {
  // The first level hides nothing.
  if (walls === null || walls.level === "process" || interpreter !== null) return null;
  if (!NOT_RUN.includes(code ?? 0) || !existsSync(program)) return null;
  const real = realpathSync(program);
  if (real.startsWith(realpathSync(walls.dataDir) + path.sep)) return null;
  return (
    `its environment links to ${real}, which is not one of the Pythons on the service's PATH ` +
    "or of pyenv, uv, mise and conda: put its folder on the PATH, or deploy the app again"
  );
}

/** `own` is the service's own interpreter. */
export type PythonPlace = { readonly own: string; readonly dataDir: string };

/** The Python for an app with these packages or that wish; null if the host has none. */
export function appPython(
  environment: string | null,
  wish: PythonWish | null,
  { own, dataDir }: PythonPlace,
): AppPython | Promise<AppPython | null> {
  if (environment !== null) return inEnvironment(path.join(environment, "bin"), own);
  if (wish === null) return ofHost(own, dataDir);
  return pythonFor(wish, own, process.env).then((found) => found && ofHost(found.path, dataDir));
}

/** An interpreter of the host for an app without packages. */
function ofHost(python: string, dataDir: string): AppPython {
  const bin = path.dirname(python);
  const isNamed = NAMES.every((name) => isSame(path.join(bin, name), python)) && isItsOwn(bin, python);
  if (isNamed) return { program: python, interpreter: python, path: [bin], names: null };
  // The host has it only as `python3.12`, or `python` is a different one.
  return byNames(python, dataDir);
}

/** An interpreter under names that the service makes: in no virtual environment of the host, which builds would change. */
export function byNames(python: string, dataDir: string): AppPython {
  const names = namesOf(python, dataDir);
  return { program: python, interpreter: python, path: [names, path.dirname(python)], names };
}

function inEnvironment(bin: string, own: string): AppPython | Promise<AppPython> {
  const program = path.join(bin, "python");
  const behind = hostPythonBehind(program, own, process.env);
  const found = (interpreter: string | null) => ({ program, interpreter, path: [bin], names: null });
  return typeof behind === "string" ? found(behind) : behind.then(found);
}

const NAMES = ["python", "python3"];

/** Whether a folder belongs to the interpreter, so that it is visible behind walls together with it. */
function isItsOwn(bin: string, python: string): boolean {
  return existsSync(path.join(bin, "..", "pyvenv.cfg")) || isSame(bin, path.dirname(realpathSync(python)));
}

/** Makes a folder in which the interpreter has the usual names. */
function namesOf(python: string, dataDir: string): string {
  const key = createHash("sha256").update(python).digest("hex").slice(0, 16);
  const folder = path.join(dataDir, "pythons", key);
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  for (const name of NAMES) {
    try {
      symlinkSync(python, path.join(folder, name));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
  return folder;
}

function isSame(one: string, other: string): boolean {
  try {
    return realpathSync(one) === realpathSync(other);
  } catch {
    return false;
  }
}
