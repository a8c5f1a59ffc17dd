import { closedFolders, hostPython, hostPythons, newerPython } from "../../host/host-pythons.ts";
import type { Interpreter } from "../../host/interpreter.ts";
import { runProgram } from "../../engines/programs/run-program.ts";
import { hostEnvironment } from "./build-environment.ts";
import { findUv } from "./installer.ts";
import { BuildError, type BuildSite } from "./site.ts";
import { appEnvironment } from "../../host/app-environment.ts";
import { type PythonWish, pythonWish } from "../../model/app-config.ts";
import { runStep } from "./run-step.ts";

/** 30 MB from a server that may be slow, or may never answer. */
const FETCH_MS = 5 * 60 * 1000;

/** A Python, or why there is none. */
type Fetched = { readonly python: Interpreter | null; readonly why: string };

/** Has uv install a Python, if the host has uv and may download. Throws only the signal's reason. */
export async function fetchPython(version: string, site: BuildSite, limitMs = FETCH_MS): Promise<Fetched> {
  const { host, python: own, say, signal } = site;
  // Not from the bundle: a file there could have uv download from anywhere.
  const cwd = "/";
  // Behind no walls, as it is for the whole host.
  const env = { ...hostEnvironment(site), UV_PYTHON_INSTALL_BIN: "0" };
  const uv = await findUv(host["PATH"] ?? "", env);
  if (uv === null) return { python: null, why: "uv, which could fetch it, is not on the PATH" };
  say(`Python ${version} is not on this host: fetching it with uv…`);
  const args = ["python", "install", "--no-progress", "--color", "never", version];
  const late = AbortSignal.timeout(limitMs);
  try {
    const order = { program: uv, args, cwd, env, onLine: say, walls: null, held: null };
    const end = await runProgram(own.path, order, AbortSignal.any([signal, late]));
    if (end.code !== 0) return { python: null, why: `uv could not fetch it: ${end.lastWords || end.detail}` };
  } catch (error) {
    signal.throwIfAborted();
    if (!late.aborted) throw error;
    return { python: null, why: `uv did not fetch it within ${limitMs / 1000} s` };
  }
  const python = await hostPython(version, null, host);
  return { python, why: python ? "" : "uv says that it fetched it, but it is not where uv keeps its own" };
}

/** The app's Python, or the service's own: from the host, else fetched by uv, else the nearest newer one. */
export async function choosePython(site: BuildSite): Promise<Interpreter> {
  const { python: own } = site;
  const wish = pythonWish(site.config.deployment);
  if (wish === null) return own;
  const { version, isStrict } = wish;
  const here = await hostPython(version, own, site.host);
  if (here) return told(here, version, site);
  const { python, why } = await fetchPython(version, site);
  if (python) return told(python, version, site);
  const newer = isStrict ? null : await newerPython(version, own, site.host);
  if (!newer) throw await noneFits(wish, why, site);
  site.say(
    `warning: python_version = "${version}" is not installed on this host: using ${newer.version}, the nearest newer ` +
      `version (${why}). Install it, for example with: uv python install ${version}`,
    "stderr",
  );
  return newer;
}

/** Interpreters that were seen to run behind the walls of a level. */
const usable = new Set<string>();

/** Throws a `BuildError` if the app's interpreter does not run behind its walls, perhaps as another user. */
export async function requireUsable({ path: program, version }: Interpreter, site: BuildSite): Promise<void> {
  const { walls, host, python } = site;
  const key = `${walls?.level} ${program}`;
  if (walls === null || program === python.path || usable.has(key)) return;
  const args = ["-I", "-c", "import json, socket, subprocess"];
  const end = await runStep({ program, args, env: appEnvironment(host, {}), onLine: () => {} }, site);
  if (end.code !== 0)
    throw new BuildError(
      `Python ${version} (${program}) cannot run apps here: ${end.lastWords || end.detail}`,
    );
  usable.add(key);
}

/** Warns if the third number of the version differs. */
function told(python: Interpreter, version: string, { say }: BuildSite): Interpreter {
  if (version.split(".").length === 3 && python.version !== version) {
    const text = `python_version = "${version}" is not installed on this host; using ${python.version}`;
    say(`warning: ${text}`, "stderr");
  }
  return python;
}

async function noneFits({ version, isStrict }: PythonWish, why: string, { host, python: own }: BuildSite) {
  const others = [own, ...(await hostPythons(host))].map((python) => minorOf(python.version));
  const list = [...new Set(others)].toSorted((a, b) => Number(a.slice(2)) - Number(b.slice(2))).join(", ");
  const orElse = isStrict ? "remove python_version_strict" : "name a version that is there";
  const closed = await closedFolders(host);
  const unseen = closed.length === 0 ? "" : `; the service's user may not read ${closed.join(", ")}`;
  return new BuildError(
    `python_version = "${version}" is not installed on this host, which has ${list}; ${why}${unseen}. ` +
      `Install it (for example: uv python install ${version}), or ${orElse}`,
  );
}

function minorOf(version: string): string {
  return version.split(".").slice(0, 2).join(".");
}
