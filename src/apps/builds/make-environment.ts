import path from "node:path";
import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";
import type { Interpreter } from "../../host/interpreter.ts";
import type { ProgramEnd } from "../../engines/programs/run-program.ts";
import { chownTree, mkdir, readlink, writeFile } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { BuildError, type BuildSite, type Env } from "./site.ts";
import { buildEnvironment, hostEnvironment } from "./build-environment.ts";
import { findInstaller, type Installer, probePip } from "./installer.ts";
import { MissingTools } from "./missing-tools.ts";
import type { Requirements } from "./requirements.ts";
import { runStep } from "./run-step.ts";
import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** Python that waits until a folder's file system has everything on its disk: `sync(folder)`. */
export const PYTHON_SYNC = `def sync(folder):
    import os
    try:
        import ctypes
        if ctypes.CDLL(None).syncfs(os.open(folder, os.O_RDONLY)) == 0:
            return
    except (ImportError, AttributeError, OSError):
        pass
    os.sync()`;

/** Compiles what was installed, but no installers, then syncs: those take seconds, and the app runs without them. */
const FINISH = `${PYTHON_SYNC}
import compileall, os, re, sys
lib = os.path.join(sys.prefix, "lib")
tools = re.compile("/site-packages/(pip|setuptools|pkg_resources|_distutils_hack)/") if sys.argv[1:] == ["tools"] else None
# Further processes cost more than they save until there is much to do.
many = sum(len(files) for _, _, files in os.walk(lib)) > 500
compileall.compile_dir(lib, quiet=2, rx=tools, workers=0 if many else 1)
sync(sys.prefix)`;

/** Makes an empty environment in place of the folder's content. `withPip` gives it a pip if the host can. */
export async function createEnvironment(
  folder: string,
  withPip: boolean,
  python: Interpreter,
  site: BuildSite,
): Promise<void> {
  const env = buildEnvironment(site, path.dirname(python.path), null);
  const run = (program: string, args: readonly string[]): Promise<ProgramEnd> =>
    runStep({ program, args, env, onLine: () => {}, makes: folder }, site);
  const make = async (option: readonly string[]): Promise<ProgramEnd> => {
    await removeTree(folder);
    await mkdir(folder, { recursive: true, mode: 0o755 });
    if (site.user !== null) await chownTree(folder, site.user);
    return await run(await behindLinks(python.path), ["-I", "-m", "venv", ...option, folder]);
  };
  await mkdir(path.dirname(folder), { recursive: true, mode: 0o700 });
  if (withPip) {
    // The wheels of ensurepip, as it would install them: its own way takes five times as long, most of it to compile them.
    const { runner, seeds } = await probePip(python.path, hostEnvironment(site));
    const bare = runner === null || seeds.length === 0 ? null : await make(["--without-pip"]);
    if (runner !== null && bare?.code === 0) {
      const args = [runner, "install", "--isolated", "--no-index", "--no-deps", "--no-compile", ...seeds];
      if ((await run(path.join(folder, "bin", "python"), args)).code === 0) return;
    }
    if ((await make([])).code === 0) return;
  }
  const end = await make(["--without-pip"]);
  if (end.code === 0) return;
  throw new BuildError(
    `Python ${python.version} of this host cannot create a virtual environment: ${end.lastWords || end.detail}. ` +
      "Install its venv module (on Debian: apt-get install python3-venv)",
  );
}

/** The target of a command's links: an environment needs the library beside it. Folder links stay: uv moves them. */
async function behindLinks(command: string): Promise<string> {
  // The interpreter of a virtual environment is a link too, and knows what it was made with.
  if (existsSync(path.join(command, "..", "..", "pyvenv.cfg"))) return command;
  const target = await readlink(command).catch(() => null);
  if (target === null) return command;
  // Not normalized: the folder may be a link itself, and `..` is above what it leads to.
  return await behindLinks(path.isAbsolute(target) ? target : `${path.dirname(command)}/${target}`);
}

/** Installs packages into an environment, for good: bytecode compiled, everything on the disk. */
export async function installInto(
  folder: string,
  requirements: Requirements,
  python: Interpreter,
  site: BuildSite,
): Promise<void> {
  const hasTools = existsSync(path.join(folder, "bin", "pip"));
  const env = buildEnvironment(site, path.join(folder, "bin"), null);
  const installer = await findInstaller(python, folder, site);
  const { files, options } = installerInput(requirements, installer, site.asideDir, (file) => file);
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(site.asideDir, name), text);
  await install({ folder, requirements, installer, options, env, hasTools }, site);
}

type Installation = {
  readonly folder: string;
  readonly requirements: Requirements;
  readonly installer: Installer;
  readonly options: readonly string[];
  readonly env: Env;
  /** The environment had installers before. */
  readonly hasTools: boolean;
  /** What the installer reads, where that is not on this machine. */
  readonly files?: Readonly<Record<string, string>>;
};

/** Has an installer do its work, then compiles all of it. */
export async function install(
  { folder, requirements, installer, options, env, hasTools, files = {} }: Installation,
  site: BuildSite,
): Promise<void> {
  const startedAt = performance.now();
  const { source, packages, locals } = requirements;
  const count = packages.length + locals.length;
  const what = count === 1 ? "1 package" : `${count} packages`;
  site.say(`installing ${what} from ${source} with ${installer.name}…`);
  const step = { env, onLine: site.say, makes: folder };
  const tools = new MissingTools();
  const onLine: BuildSite["say"] = (text, stream) => {
    tools.take(text);
    site.say(text, stream);
  };
  const { name, program, args } = installer;
  const installing = { ...step, onLine, files, env: { ...env, ...installer.env }, program };
  const end = await runStep({ ...installing, args: [...args, ...options] }, site);
  if (end.code !== 0) {
    const why = (end.lastWords || end.detail) + (await tools.advice(site));
    throw new BuildError(`${name} could not install the packages from ${source}: ${why}`);
  }
  const finish = ["-I", "-c", FINISH, ...(hasTools ? ["tools"] : [])];
  await runStep({ ...step, program: path.join(folder, "bin", "python"), args: finish }, site);
  site.say(`environment ready in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
}

/** What was checked, as files and options for the installer; `where` gives the installer's path of a bundle's file. */
export function installerInput(
  { packages, constraints, locals, links, flags }: Requirements,
  installer: Installer,
  folder: string,
  where: (fullPath: string) => string,
): { readonly files: Readonly<Record<string, string>>; readonly options: readonly string[] } {
  const urls = locals.map(({ fullPath, after }) => pathToFileURL(where(fullPath)).href + after);
  const hasLimits = constraints.length > 0;
  const files = {
    "requirements.txt": [...packages, ...urls, ""].join("\n"),
    ...(hasLimits && { "constraints.txt": [...constraints, ""].join("\n") }),
  };
  const options = [
    ...flags.map((flag) => (flag === "--pre" && installer.name === "uv" ? "--prerelease=allow" : flag)),
    ...links.flatMap(({ fullPath }) => ["--find-links", where(fullPath)]),
    ...(hasLimits ? ["--constraint", path.join(folder, "constraints.txt")] : []),
    "--requirement",
    path.join(folder, "requirements.txt"),
  ];
  return { files, options };
}

/** Waits until the disk has everything that was written in a folder. */
export async function syncTree(folder: string, { path: python }: Interpreter): Promise<void> {
  const program = `${PYTHON_SYNC}\nimport sys\nsync(sys.argv[1])`;
  await promisify(execFile)(python, ["-I", "-S", "-c", program, folder]);
}
