import path from "node:path";
import type { Interpreter } from "../../host/interpreter.ts";
import { byNames } from "../../host/app-python.ts";
import { readFile } from "../../kit/files.ts";
import { entriesBelow } from "./bundle-files.ts";
import { buildEnvironment } from "./build-environment.ts";
import { choosePython, requireUsable } from "./choose-python.ts";
import { type BuildCommand, type BuildSteps, type CommandKind, runCommands } from "./commands.ts";
import { checkSyntax, compileBundle, requireMain } from "./compile-bundle.ts";
import { close, ownEnvironment, sharedEnvironment } from "./environments.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { installInto } from "./make-environment.ts";
import type { Requirements } from "./requirements.ts";
import type { BuildSite } from "./site.ts";
import type { BuildTarget, PreparedBuild } from "./commands.ts";

/** Builds for this machine: commands run here, and packages are installed into an environment on its disk. */
export async function buildOnThisMachine(begun: BuildSite, carryOut: BuildSteps): Promise<PreparedBuild> {
  await warnOfStoragePath(begun);
  const python = await choosePython(begun);
  const site = { ...begun, appPython: byNames(python.path, begun.dataDir) };
  await requireUsable(python, site);
  const target = new LocalTarget(python, site);
  try {
    return await carryOut(target, site);
  } catch (error) {
    await target.abandon();
    throw error;
  }
}

class LocalTarget implements BuildTarget {
  readonly #python: Interpreter;
  readonly #site: BuildSite;
  /** The environment that only this build uses, so that its commands may change it. */
  #own: string | null = null;
  #environment: string | null = null;
  #hasRun = false;

  constructor(python: Interpreter, site: BuildSite) {
    this.#python = python;
    this.#site = site;
  }

  async checkSyntax(): Promise<void> {
    await checkSyntax(this.#python.path, this.#site);
  }

  async makeOwn(): Promise<void> {
    this.#own = this.#environment = await ownEnvironment(this.#python, this.#site);
  }

  async runCommands(kind: CommandKind, commands: readonly BuildCommand[]): Promise<void> {
    const [environment, own] = [this.#environment, this.#own];
    const bins = environment === null ? this.#site.appPython.path : [path.join(environment, "bin")];
    const env = buildEnvironment(this.#site, bins.join(path.delimiter), own);
    await runCommands(kind, commands, { env, environment, own }, this.#site);
    this.#hasRun ||= commands.length > 0;
  }

  async install(requirements: Requirements): Promise<void> {
    if (this.#own !== null) await installInto(this.#own, requirements, this.#python, this.#site);
    else this.#environment = await sharedEnvironment(requirements, this.#python, this.#site);
  }

  async finish(needsMain: boolean): Promise<void> {
    if (this.#own !== null) await close(this.#own, this.#site);
    if (needsMain) requireMain(this.#site.bundleDir);
    await compileBundle(this.#python.path, this.#hasRun, needsMain, this.#site);
  }

  async keep(): Promise<PreparedBuild> {
    const environment = this.#environment;
    const python = environment === null ? this.#python.path : path.join(environment, "bin", "python");
    return { environment, python: python === this.#site.python.path ? null : python };
  }

  async abandon(): Promise<void> {
    if (this.#own !== null) await removeTree(this.#own);
  }
}

const LITERAL = "/persistent-storage";
const TEXTS = /\.(?:py|sh|js|mjs|ts|toml|ya?ml|json|cfg|ini|txt)$/;
const MAX_FILES = 2_000;
const MAX_FILE_BYTES = 256 * 1024;

/** Warns of files that name the path by which the hosted original shows storage, where walls cannot put it there. */
async function warnOfStoragePath({ bundleDir, walls, say, signal }: BuildSite): Promise<void> {
  if (walls?.level === "userns" || walls?.level === "uid") return;
  const file = await firstToNameIt(bundleDir, signal);
  if (file === null) return;
  const advice = "use the path in the variable PERSISTENT_STORAGE";
  say(`warning: ${file} names ${LITERAL}, which is not there on this host: ${advice}`, "stderr");
}

async function firstToNameIt(bundleDir: string, signal: AbortSignal): Promise<string | null> {
  let count = 0;
  for await (const { place, found } of entriesBelow(bundleDir)) {
    signal.throwIfAborted();
    if (++count > MAX_FILES) return null;
    if (!found.isFile() || found.size > MAX_FILE_BYTES || !TEXTS.test(place)) continue;
    if ((await readFile(place, "latin1")).includes(LITERAL)) return path.relative(bundleDir, place);
  }
  return null;
}
