import { existsSync, mkdirSync, realpathSync, symlinkSync } from "node:fs";
import { createHash } from "node:crypto";
import path from "node:path";
import type { PythonWish } from "../model/app-config.ts";
import { hostPythonBehind, pythonFor } from "./host-pythons.ts";
import type { WallLevel } from "./walls/walls.ts";

/** What an app runs on. */
export type AppPython = {
  /** What is started: an interpreter of the host, or the one in the app's environment. */
  readonly program: string;
  /** The host's interpreter that it is or links to; null if the environment has one of its own. */
  readonly interpreter: string | null;
  /** The folders that come first on its PATH, so that `python` is this one. */
  readonly path: readonly string[];
  /** What of those is made by the service. */
  readonly names: string | null;
};

/** For an app that runs in an image or on another machine, which has one of its own. */
export const PYTHON_ELSEWHERE: AppPython = { program: "python3", interpreter: null, path: [], names: null };

/** For people: the app asks for a Python that the host has not, or no longer. */
export function missingPython(version = ""): string {
  return `the host has no Python ${version}, which its python_version names: install it, or deploy the app for another`;
}

/** What shells and keepers exit with if a program could not be run. */
const NOT_RUN = [126, 127];

/**
 * For people: the interpreter that an environment links to and that is not shown to its app, if something behind walls
 * ended as what does not find its interpreter; null otherwise.
 */
export function hiddenPython(
  { program, interpreter }: AppPython,
  code: number | null,
  walls: { readonly level: WallLevel; readonly dataDir: string } | null,
): string | null {
  // On the first level everything is there to see.
  if (walls === null || walls.level === "process" || interpreter !== null) return null;
  if (!NOT_RUN.includes(code ?? 0) || !existsSync(program)) return null;
  const real = realpathSync(program);
  if (real.startsWith(realpathSync(walls.dataDir) + path.sep)) return null;
  return (
    `its environment links to ${real}, which is none of the Pythons on the service's PATH ` +
    "or of pyenv, uv, mise and conda: put its folder on the PATH, or deploy the app again"
  );
}

/** What to find a Python by. */
export type PythonPlace = {
  /** The service's own interpreter. */
  readonly own: string;
  readonly dataDir: string;
};

/** What an app runs on that has these packages or asks for that version; null if the host has no such Python. */
export function appPython(
  environment: string | null,
  wish: PythonWish | null,
  { own, dataDir }: PythonPlace,
): AppPython | Promise<AppPython | null> {
  if (environment !== null) return inEnvironment(path.join(environment, "bin"), own);
  if (wish === null) return ofHost(own, dataDir);
  return pythonFor(wish, own, process.env).then((found) => found && ofHost(found.path, dataDir));
}

/** An interpreter of the host, as what runs on it without packages of its own finds it. */
function ofHost(python: string, dataDir: string): AppPython {
  const bin = path.dirname(python);
  const isNamed = NAMES.every((name) => isSame(path.join(bin, name), python)) && isItsOwn(bin, python);
  if (isNamed) return { program: python, interpreter: python, path: [bin], names: null };
  // The host knows it as `python3.12` alone, or knows `python` as another.
  return byNames(python, dataDir);
}

/**
 * An interpreter of the host by names that the service makes. Through them it is in no virtual environment of the host's,
 * which a pip that a build calls would otherwise change.
 */
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

/** The names that commands call an interpreter by. */
const NAMES = ["python", "python3"];

/** Whether what is in a folder is the interpreter's, so that it is visible where the interpreter is. */
function isItsOwn(bin: string, python: string): boolean {
  return existsSync(path.join(bin, "..", "pyvenv.cfg")) || isSame(bin, path.dirname(realpathSync(python)));
}

/** Makes a folder in which an interpreter has those names. */
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
