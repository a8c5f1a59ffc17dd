import path from "node:path";
import { chownTree, mkdir } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { pythonWish } from "../../model/app-config.ts";
import type { AppConfig, BuiltImage } from "../../model/app-config.ts";
import { byNames } from "../../host/app-python.ts";
import { makeScratch, removeScratch } from "../../host/walls/scratch.ts";
import { buildEnvironment } from "./build-environment.ts";
import { touchCache } from "./caches.ts";
import { choosePython, requireUsable } from "./choose-python.ts";
import { readCommands, runCommands } from "./commands.ts";
import { checkSyntax, checkSyntaxForImage, compileBundle, requireMain } from "./compile-bundle.ts";
import { prepareElsewhere } from "./elsewhere/prepare-elsewhere.ts";
import {
  ownEnvironment,
  ownEnvironmentDone,
  releaseEnvironments,
  removeEnvironment,
  sharedEnvironment,
} from "./environments.ts";
import { checkHost } from "./host-fit.ts";
import type { RegistryAuth } from "./images/registry-auth.ts";
import { makeImage } from "./images/make-image.ts";
import { installInto } from "./make-environment.ts";
import { readRequirements } from "./requirements.ts";
import type { BuildHost, BuildSite } from "./site.ts";
import { warnOfStoragePath } from "./storage-path.ts";

export type BuildInput = BuildHost & {
  readonly buildId: string;
  readonly projectId: string;
  /** The extracted bundle; the build may change it. */
  readonly bundleDir: string;
  readonly config: AppConfig;
  /** Takes a line for those who follow the build. */
  readonly say: BuildSite["say"];
  readonly signal: AbortSignal;
  /** What opens the registries of its images, beside what the service itself can open. */
  readonly registryAuth?: RegistryAuth | null;
  /** Where its packages go, if a version names the place already. */
  readonly environmentDir?: string;
  /** Refuse a bundle with a Python file that does not parse; otherwise only `main.py` has to. */
  readonly checksSyntax?: boolean;
  /** The environment of the service's process. */
  readonly host?: NodeJS.ProcessEnv;
};

/** What a version's replicas are started with. */
export type PreparedBuild = {
  /** The folder of its packages; null when it has none. */
  readonly environment: string | null;
  /** The interpreter that runs it; null for the service's own. */
  readonly python: string | null;
  /** The image that was built for it elsewhere; absent for none. */
  readonly built?: BuiltImage;
};

/**
 * Makes a bundle ready for its first replica: commands before, packages, commands after, bytecode. Throws a
 * `BuildError` for what its author has to mend, and the signal's reason when cancelled; nothing it started
 * outlives it. `keep` stores what was made: until it has ended nobody clears the environment away.
 */
export async function prepareBuild<Kept>(
  input: BuildInput,
  keep: (built: PreparedBuild) => Promise<Kept> | Kept,
): Promise<Kept> {
  return await atSite(input, async (site) => {
    await touchCache(input.dataDir, input.projectId);
    return await keep(await prepare(input, site));
  });
}

/** Does something with an extracted bundle in the surroundings of a build, of which nothing is left afterwards. */
export async function atSite<Made>(
  input: BuildInput,
  work: (site: BuildSite) => Promise<Made>,
): Promise<Made> {
  const { config, bundleDir, dataDir, projectId, walls } = input;
  const user = input.storage.userOf(projectId);
  const scratch = walls && makeScratch(dataDir, user);
  const asideDir = `${bundleDir}.aside`;
  const site: BuildSite = {
    ...input,
    asideDir,
    user,
    scratch,
    keeperPython: input.python.path,
    pythonVersion: input.python.version,
    appPython: byNames(input.python.path, dataDir),
    host: input.host ?? process.env,
    registryAuth: input.registryAuth ?? null,
    environmentDir: input.environmentDir ?? null,
    dependencies: config.dependencies,
    checksSyntax: input.checksSyntax ?? false,
    wantsUv: config.deployment.useUv,
    unixSockets: config.deployment.unixSockets,
  };
  try {
    await removeTree(asideDir);
    await mkdir(asideDir, { recursive: true });
    // Nothing of it has run yet.
    if (user !== null) await chownTree(bundleDir, user);
    return await work(site);
  } finally {
    releaseEnvironments(input.buildId);
    await removeTree(asideDir);
    if (scratch !== null) await removeScratch(scratch);
  }
}

async function prepare(input: BuildInput, begun: BuildSite): Promise<PreparedBuild> {
  const { config, bundleDir, signal } = input;
  signal.throwIfAborted();
  if (input.elsewhere) return await prepareElsewhere(config, begun, input.elsewhere);
  const image = await checkHost(config, begun);
  if (image !== null) {
    await checkSyntaxForImage(input.python, begun);
    return { environment: await makeImage(image, config, begun), python: null };
  }
  await warnOfStoragePath(begun);
  const python = await choosePython(pythonWish(config.deployment), input.python, begun);
  const site = { ...begun, appPython: byNames(python.path, begun.dataDir) };
  await requireUsable(python, site);
  await checkSyntax(python.path, site);
  const before = await readCommands("pre_build_commands", config.deployment, bundleDir);
  const after = await readCommands("shell_commands", config.deployment, bundleDir);
  // Commands that install something shall not change packages that other versions share.
  const own = [...before, ...after].some(({ installs }) => installs)
    ? await ownEnvironment(python, site)
    : null;
  try {
    const host = site.appPython.path.join(path.delimiter);
    const place = (environment: string | null) => {
      const bin = environment === null ? host : path.join(environment, "bin");
      return { env: buildEnvironment(site, bin, own), environment, own };
    };
    await runCommands("pre_build_commands", before, place(own), site);
    const requirements = await readRequirements(config.dependencies, site);
    if (own !== null && requirements) await installInto(own, requirements, python, site);
    const environment = own ?? (requirements && (await sharedEnvironment(requirements, python, site)));
    const runsOn = environment === null ? python.path : pythonOf(environment);
    await runCommands("shell_commands", after, place(environment), site);
    if (own !== null) await ownEnvironmentDone(own, site);
    const needsMain = config.customRuntime === null;
    if (needsMain) requireMain(bundleDir);
    await compileBundle(python.path, before.length + after.length > 0, needsMain, site);
    return { environment, python: runsOn === input.python.path ? null : runsOn };
  } catch (error) {
    if (own !== null) await removeEnvironment(own);
    throw error;
  }
}

function pythonOf(environment: string): string {
  return path.join(environment, "bin", "python");
}
