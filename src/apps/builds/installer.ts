import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import type { Interpreter } from "../../host/interpreter.ts";
import { BuildError, type BuildSite, type Env } from "./site.ts";
import { hostEnvironment } from "./build-environment.ts";
import { type PipSettings, readPipSettings } from "./pip-settings.ts";
import { fetchPipWheel, pythonDownload } from "./pip-wheel.ts";

export type Installer = {
  readonly name: "uv" | "pip";
  readonly program: string;
  /** Before its options and the requirements. */
  readonly args: readonly string[];
  /** Beyond what every process of a build finds: addresses may hold passwords, which `ps` would show. */
  readonly env: Env;
};

/** The pip of an interpreter, and the wheels that come with it. */
export type Probe = {
  readonly pip: string | null;
  /** The script of that pip that runs it under another interpreter. */
  readonly runner: string | null;
  readonly bundled: string | null;
  /** All wheels that ensurepip puts into a new environment. */
  readonly seeds: readonly string[];
};

/** Which pip the interpreter has, and which wheels come with ensurepip: setuptools too, before Python 3.12. */
export const PROBE = `import glob, json, os, sys, sysconfig
pip = runner = None
seeds = []
try:
    import importlib.metadata, importlib.util
    pip = importlib.metadata.version("pip")
    runner = os.path.join(os.path.dirname(importlib.util.find_spec("pip").origin), "__pip-runner__.py")
except Exception:
    pass
try:
    import ensurepip
    folders = [os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"), sysconfig.get_config_var("WHEEL_PKG_DIR")]
    for name in ["pip"] if sys.version_info >= (3, 12) else ["pip", "setuptools"]:
        seeds += [wheel for folder in folders if folder for wheel in glob.glob(os.path.join(folder, name + "-*.whl"))][:1]
except Exception:
    pass
bundled = seeds[0] if seeds and os.path.basename(seeds[0]).startswith("pip-") else None
print(json.dumps({
    "pip": pip, "runner": runner if runner and os.path.isfile(runner) else None, "bundled": bundled, "seeds": seeds,
}))`;
const NO_PIP: Probe = { pip: null, runner: null, bundled: null, seeds: [] };
/** How long a program may take to report its version. */
const ASK_MS = 20_000;
const UV_OWN_SOURCES = /^UV_(DEFAULT_INDEX|INDEX|INDEX_URL|EXTRA_INDEX_URL|CONFIG_FILE)$/;
/** The first pip that installs for another interpreter than its own. */
const REACHING_PIP = [22, 3] as const;

/** What can install packages: uv, else the interpreter's own pip, else ensurepip's, else one from the index. */
export async function findInstaller(
  python: Interpreter,
  environment: string,
  site: BuildSite,
): Promise<Installer> {
  const env = hostEnvironment(site);
  const settings = await readPipSettings(site.host);
  const inside = path.join(environment, "bin", "python");
  const uv = await findUv(site.host["PATH"] ?? "", env);
  if (uv !== null) {
    const args = ["pip", "install", "--python", inside, "--no-progress", "--color", "never"];
    const sources = uvSources(settings, site.host);
    return { name: "uv", program: uv, args: [...args, ...sources.args], env: sources.env };
  }
  if (site.config.deployment.useUv)
    site.say("warning: use_uv is set, but this host has no uv: using pip", "stderr");
  const probe = await probePip(python.path, env);
  const found = pipInstaller(probe, python, inside);
  if (found) return found;
  const wheel = await fetchWheel(python, settings, env, site);
  return { name: "pip", program: inside, args: [path.join(wheel, "pip"), ...PIP_INSTALL], env: {} };
}

const PIP_INSTALL = ["install", "--progress-bar", "off", "--no-compile"];

/** The pip that an interpreter has, or that comes with it; null for none. `inside` is the environment's own interpreter. */
export function pipInstaller(probe: Probe, python: Interpreter, inside: string): Installer | null {
  const { pip, runner, bundled } = probe;
  const own = { name: "pip", program: inside, env: {} } as const;
  // What `pip --python` does in the end, without a first pip that only starts the second.
  if (runner !== null) return { ...own, args: [runner, ...PIP_INSTALL] };
  if (pip !== null)
    return { ...own, program: python.path, args: ["-m", "pip", "--python", inside, ...PIP_INSTALL] };
  return bundled === null ? null : { ...own, args: [path.join(bundled, "pip"), ...PIP_INSTALL] };
}

/** The first uv on the path that runs; null for none. */
export async function findUv(searchPath: string, env: Env): Promise<string | null> {
  for (const folder of searchPath.split(path.delimiter)) {
    const command = path.join(folder, "uv");
    if (!path.isAbsolute(command) || !existsSync(command)) continue;
    // It may be a shim for a uv that is not installed.
    const runs = await promisify(execFile)(command, ["--version"], { env: { ...env }, timeout: ASK_MS }).then(
      () => true,
      () => false,
    );
    if (runs) return command;
  }
  return null;
}

/** uv does not read pip's settings: without them it would ask the public index for a private package. */
function uvSources(settings: PipSettings, host: NodeJS.ProcessEnv): Pick<Installer, "args" | "env"> {
  if (Object.keys(host).some((name) => UV_OWN_SOURCES.test(name))) return { args: [], env: {} };
  const { indexUrl, extraIndexUrls, findLinks, noIndex } = settings;
  return {
    args: [...findLinks.flatMap((link) => ["--find-links", link]), ...(noIndex ? ["--no-index"] : [])],
    env: {
      ...(indexUrl !== null && { UV_INDEX_URL: indexUrl }),
      ...(extraIndexUrls.length > 0 && { UV_EXTRA_INDEX_URL: extraIndexUrls.join(" ") }),
    },
  };
}

/** Asks an interpreter which pip it has that can install for another one. Isolated: a home may hold code of a build. */
export async function probePip(python: string, env: Env): Promise<Probe> {
  try {
    const options = { env: { ...env }, timeout: ASK_MS };
    return readProbe((await promisify(execFile)(python, ["-I", "-c", PROBE], options)).stdout);
  } catch {
    return NO_PIP;
  }
}

/** Reads what an interpreter answers; throws for anything else. */
export function readProbe(answer: string): Probe {
  // oxlint-disable-next-line no-unsafe-type-assertion
  const probe = JSON.parse(answer) as Probe;
  const reaches = probe.pip !== null && isReaching(probe.pip);
  return reaches ? probe : { ...probe, pip: null, runner: null };
}

function isReaching(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > REACHING_PIP[0] || (major === REACHING_PIP[0] && minor >= REACHING_PIP[1]);
}

async function fetchWheel(python: Interpreter, { indexUrl }: PipSettings, env: Env, site: BuildSite) {
  const download = pythonDownload(python.path, env, site.signal);
  try {
    if (indexUrl === null) throw new BuildError("no package index is set to fetch pip from (PIP_INDEX_URL)");
    site.say(`Python ${python.version} of this host has no pip: fetching one from the package index`);
    return await fetchPipWheel(indexUrl, python.version, site.asideDir, download);
  } catch (error) {
    if (!(error instanceof BuildError)) throw error;
    throw new BuildError(
      `this host cannot install Python packages: ${error.message}. ` +
        "Install uv, or pip for its Python (on Debian: apt-get install python3-pip python3-venv)",
      { cause: error },
    );
  }
}
