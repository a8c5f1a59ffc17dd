import { hostPython, hostPythons, newerPython } from "../../host/host-pythons.ts";
import type { Interpreter } from "../../host/interpreter.ts";
import type { PythonWish } from "../../model/app-config.ts";
import { BuildError } from "./build-error.ts";
import { fetchPython } from "./fetch-python.ts";
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
  return new BuildError(
    `python_version = "${version}" is not installed on this host, which has ${list}; ${why}. ` +
      `Install it (for example: uv python install ${version}), or ${orElse}`,
  );
}

function minorOf(version: string): string {
  return version.split(".").slice(0, 2).join(".");
}
