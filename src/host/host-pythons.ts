import path from "node:path";
import { existsSync, realpathSync } from "node:fs";
import type { PythonWish } from "../model/app-config.ts";
import { findInterpreter, type FoundInterpreter, type Interpreter } from "./interpreter.ts";
import { readdir } from "../kit/files.ts";

/** The minor versions of Python 3 to look for. */
const MINORS = [9, 10, 11, 12, 13, 14, 15];

/** Results by command: asking a shim takes up to 200 ms. */
const found = new Map<string, Promise<FoundInterpreter | null>>();
/** Real paths of known Pythons of the host. */
const ofHost = new Set<string>();

/** The service's own Python, or the first on the host, with that version; preferably the same patch version. Null for none. */
export async function hostPython(
  version: string,
  own: Interpreter | null,
  host: NodeJS.ProcessEnv,
): Promise<Interpreter | null> {
  const [, minor = "", patch] = version.split(".");
  const fits = (python: Interpreter): boolean => python.version.startsWith(`3.${minor}.`);
  const isMeant = (python: Interpreter): boolean => patch === undefined || python.version === version;
  let first = own && fits(own) ? own : null;
  if (first && isMeant(first)) return first;
  for (const folder of await pythonFolders(host)) {
    const command = path.join(folder, `python3.${minor}`);
    if (!existsSync(command)) continue;
    const python = await askOnce(command);
    if (!python || !fits(python)) continue;
    if (isMeant(python)) return python;
    first ??= python;
  }
  return first;
}

/** The oldest Python newer than that version; null for none. */
export async function newerPython(
  version: string,
  own: Interpreter | null,
  host: NodeJS.ProcessEnv,
): Promise<Interpreter | null> {
  const wanted = Number(version.split(".")[1]);
  for (const minor of MINORS.filter((each) => each > wanted)) {
    const python = await hostPython(`3.${minor}`, own, host);
    if (python) return python;
  }
  return null;
}

/** The Python for an app's wish: that version, or a newer one if the wish allows it; null for none. */
export async function pythonFor(
  { version, isStrict }: PythonWish,
  ownCommand: string,
  host: NodeJS.ProcessEnv,
): Promise<Interpreter | null> {
  const own = await askOnce(ownCommand);
  return (await hostPython(version, own, host)) ?? (isStrict ? null : await newerPython(version, own, host));
}

/** The Pythons of the host, one of each minor version, oldest first. */
export async function hostPythons(host: NodeJS.ProcessEnv): Promise<Interpreter[]> {
  const pythons = await Promise.all(MINORS.map((minor) => hostPython(`3.${minor}`, null, host)));
  return pythons.filter((python) => python !== null);
}

/** The known Python of the host that a program links to, or null. A build can link to anything, and the app sees the folder. */
export function hostPythonBehind(
  program: string,
  ownCommand: string,
  host: NodeJS.ProcessEnv,
): string | Promise<string | null> {
  const real = realOf(program);
  if (real === null) return Promise.resolve(null);
  if (ofHost.has(real)) return real;
  if (realOf(ownCommand) !== real) return searchFor(real, ownCommand, host);
  ofHost.add(real);
  return real;
}

async function searchFor(real: string, ownCommand: string, host: NodeJS.ProcessEnv): Promise<string | null> {
  const named = /^python3\.\d+/.exec(path.basename(real))?.[0];
  const names = named === undefined ? MINORS.map((minor) => `python3.${minor}`) : [named];
  const folders = await pythonFolders(host);
  const commands = [ownCommand, ...folders.flatMap((folder) => names.map((name) => path.join(folder, name)))];
  let isFound = commands.some((command) => realOf(command) === real);
  // A shim or script is not a link to the Python that it starts.
  for (const command of commands.filter((each) => existsSync(each)))
    isFound ||= (await askOnce(command))?.base === real;
  if (isFound) ofHost.add(real);
  return isFound ? real : null;
}

function realOf(program: string): string | null {
  try {
    return realpathSync(program);
  } catch {
    return null;
  }
}

async function askOnce(command: string): Promise<FoundInterpreter | null> {
  const asked = found.get(command) ?? findInterpreter(command).catch(() => null);
  found.set(command, asked);
  const python = await asked;
  // Not cached: it may be repaired later.
  if (python === null) found.delete(command);
  return python;
}

/** For each version manager. */
const MAX_INSTALLED = 200;
const CONDA_NAMES = ["miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba"];

/** The folders that may hold a `python3.12`: those on the PATH, then those of pyenv, uv, mise and conda, newest first. */
async function pythonFolders(host: NodeJS.ProcessEnv): Promise<string[]> {
  const condas = condaRoots(host);
  const installed = await Promise.all(managersOf(host).map(below));
  const environments = await Promise.all(condas.map((root) => below(path.join(root, "envs"))));
  const folders = [
    ...(host["PATH"] ?? "").split(path.delimiter),
    ...[...installed.flat(), ...condas, ...environments.flat()].map((folder) => path.join(folder, "bin")),
  ];
  return [...new Set(folders.filter((folder) => path.isAbsolute(folder)))];
}

/** Folders of version managers and of the PATH that this user cannot read. */
export async function closedFolders(host: NodeJS.ProcessEnv): Promise<string[]> {
  const folders = [...managersOf(host), ...(host["PATH"] ?? "").split(path.delimiter)];
  const looks = folders.map(async (folder) => {
    const error = await readdir(folder).catch((reason: NodeJS.ErrnoException) => reason);
    return "code" in error && error.code === "EACCES" ? [folder] : [];
  });
  return [...new Set((await Promise.all(looks)).flat())];
}

/** The folders of pyenv, uv and mise, with a folder for each version. */
function managersOf(host: NodeJS.ProcessEnv): string[] {
  const home = host["HOME"] ?? "/";
  const data = host["XDG_DATA_HOME"] ?? path.join(home, ".local", "share");
  return [
    path.join(host["PYENV_ROOT"] ?? path.join(home, ".pyenv"), "versions"),
    host["UV_PYTHON_INSTALL_DIR"] ?? path.join(data, "uv", "python"),
    path.join(host["MISE_DATA_DIR"] ?? path.join(data, "mise"), "installs", "python"),
  ];
}

/** The folders of conda and its relatives, configured or usual. */
function condaRoots(host: NodeJS.ProcessEnv): string[] {
  const home = host["HOME"] ?? "/";
  const { CONDA_EXE: program, CONDA_ROOT, MAMBA_ROOT_PREFIX } = host;
  const named = [program && path.dirname(path.dirname(program)), CONDA_ROOT, MAMBA_ROOT_PREFIX];
  const usual = CONDA_NAMES.flatMap((name) => [path.join(home, name), path.join("/opt", name)]);
  return [...named.flatMap((root) => root || []), ...usual, "/opt/conda"];
}

/** The folders in a folder, highest version first; none if it does not exist. */
async function below(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => []);
  const order = new Intl.Collator("en", { numeric: true });
  return names
    .toSorted((a, b) => order.compare(b, a))
    .slice(0, MAX_INSTALLED)
    .map((name) => path.join(folder, name));
}
