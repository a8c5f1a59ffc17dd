import { appEnvironment } from "../../host/app-environment.ts";
import { closedFolders, hostPython, hostPythons, newerPython } from "../../host/host-pythons.ts";
import type { Interpreter } from "../../host/interpreter.ts";
import type { PythonWish } from "../../model/app-config.ts";
import { BuildError } from "./build-error.ts";
import { fetchPython } from "./fetch-python.ts";
import { runStep } from "./run-step.ts";
import type { BuildSite } from "./site.ts";

/**
 * The Python that the app asks for, such as "3.12", or the service's own where it asks for none: one that the host
 * has, else one that uv fetches, else the nearest newer one. Throws a `BuildError` that lists what there is.
 */
export async function choosePython(
  wish: PythonWish | null,
  own: Interpreter,
  site: BuildSite,
): Promise<Interpreter> {
  if (wish === null) return own;
  const { version, isStrict } = wish;
  const here = await hostPython(version, own, site.host);
  if (here) return told(here, version, site);
  const { python, why } = await fetchPython(version, site);
  if (python) return told(python, version, site);
  const newer = isStrict ? null : await newerPython(version, own, site.host);
  if (!newer) throw await noneFits(wish, own, why, site);
  site.say(
    `warning: python_version = "${version}" is not installed on this host: using ${newer.version}, the nearest newer ` +
      `version (${why}). Install it, for example with: uv python install ${version}`,
    "stderr",
  );
  return newer;
}

/** Interpreters that were seen to run behind the walls of a level. */
const usable = new Set<string>();

/**
 * Throws a `BuildError` if the app's interpreter does not run where its processes will, which may be those of another
 * user. The service's own was tried when it started.
 */
export async function requireUsable({ path: program, version }: Interpreter, site: BuildSite): Promise<void> {
  const { walls, host, keeperPython } = site;
  const key = `${walls?.level} ${program}`;
  if (walls === null || program === keeperPython || usable.has(key)) return;
  const args = ["-I", "-c", "import json, socket, subprocess"];
  const end = await runStep({ program, args, env: appEnvironment(host, {}), onLine: () => {} }, site);
  if (end.code !== 0)
    throw new BuildError(
      `Python ${version} (${program}) cannot run apps here: ${end.lastWords || end.detail}`,
    );
  usable.add(key);
}

/** The third number is a wish. */
function told(python: Interpreter, version: string, { say }: BuildSite): Interpreter {
  if (version.split(".").length === 3 && python.version !== version) {
    const text = `python_version = "${version}" is not installed on this host; using ${python.version}`;
    say(`warning: ${text}`, "stderr");
  }
  return python;
}

async function noneFits(
  { version, isStrict }: PythonWish,
  own: Interpreter,
  why: string,
  { host }: BuildSite,
): Promise<BuildError> {
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
