import { hostPython } from "../../host/host-pythons.ts";
import type { Interpreter } from "../../host/interpreter.ts";
import { runProgram } from "../../engines/programs/run-program.ts";
import { hostEnvironment } from "./build-environment.ts";
import { findUv } from "./installer.ts";
import type { BuildSite } from "./site.ts";

/** 30 MB from a server that may be slow, or may never answer. */
const FETCH_MS = 5 * 60 * 1000;

/** What came of an attempt: a Python, or for people why there is none. */
type Fetched = { readonly python: Interpreter | null; readonly why: string };

/**
 * Has uv install a Python where it keeps its own, if the host has uv and may download. Throws only the signal's
 * reason: an app may do with another version.
 */
export async function fetchPython(version: string, site: BuildSite, limitMs = FETCH_MS): Promise<Fetched> {
  const { host, keeperPython, say, signal } = site;
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
    const end = await runProgram(keeperPython, order, AbortSignal.any([signal, late]));
    if (end.code !== 0) return { python: null, why: `uv could not fetch it: ${end.lastWords || end.detail}` };
  } catch (error) {
    signal.throwIfAborted();
    if (!late.aborted) throw error;
    return { python: null, why: `uv did not fetch it within ${limitMs / 1000} s` };
  }
  const python = await hostPython(version, null, host);
  return { python, why: python ? "" : "uv says that it fetched it, but it is not where uv keeps its own" };
}
