import { chownTree, mkdir } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import type { AppConfig } from "../../model/app-config.ts";
import { byNames } from "../../host/app-python.ts";
import { makeScratch, removeScratch } from "../../host/walls/scratch.ts";
import { touchCache } from "./build-environment.ts";
import { type BuildTarget, type PreparedBuild, readCommands } from "./commands.ts";
import { releaseEnvironments } from "./environments.ts";
import { checkHost } from "./host-fit.ts";
import { buildInImage } from "./images/make-image.ts";
import type { RegistryAuth } from "../deploys/deploy-request.ts";
import { buildOnThisMachine } from "./local-target.ts";
import { buildInSeat } from "./remote/remote-target.ts";
import { readRequirements } from "./requirements.ts";
import type { BuildHost, BuildSite } from "./site.ts";

export type BuildInput = BuildHost & {
  readonly buildId: string;
  readonly projectId: string;
  /** The extracted bundle; the build may change it. */
  readonly bundleDir: string;
  readonly config: AppConfig;
  /** Adds a line to the build's log. */
  readonly say: BuildSite["say"];
  readonly signal: AbortSignal;
  /** Logins for the registries of its images, besides those of the service. */
  readonly registryAuth?: RegistryAuth | null;
  /** Where its packages go, if a version names the place already. */
  readonly environmentDir?: string;
  /** Refuse a bundle with a Python file that does not parse; otherwise only `main.py` has to. */
  readonly checksSyntax?: boolean;
  /** The environment of the service's process. */
  readonly host?: NodeJS.ProcessEnv;
};

/**
 * Makes a bundle ready for its first replica. Throws a `BuildError` for what its author has to correct, and the signal's
 * reason when cancelled; nothing that it started outlives it. `keep` stores what was made: no environment is removed
 * before it has ended.
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

/** Runs something that needs what every build needs, and removes all of that afterwards. */
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

/** Chooses where to build. */
async function prepare(
  { config, python, remote, signal }: BuildInput,
  site: BuildSite,
): Promise<PreparedBuild> {
  signal.throwIfAborted();
  const carryOut = (target: BuildTarget, on: BuildSite): Promise<PreparedBuild> => build(config, target, on);
  if (remote) return await buildInSeat(config, site, remote, carryOut);
  const image = await checkHost(config, site);
  return image === null
    ? await buildOnThisMachine(config, python, site, carryOut)
    : await buildInImage(image, config, site, carryOut);
}

/** The steps of a build, wherever it happens. */
async function build(
  { deployment, dependencies, customRuntime }: AppConfig,
  target: BuildTarget,
  site: BuildSite,
): Promise<PreparedBuild> {
  await target.checkSyntax();
  const before = await readCommands("pre_build_commands", deployment, site.bundleDir);
  const after = await readCommands("shell_commands", deployment, site.bundleDir);
  // Commands that install something must not change packages that other versions share.
  if ([...before, ...after].some(({ installs }) => installs)) await target.makeOwn();
  await target.runCommands("pre_build_commands", before);
  // Only now: the commands may have written the list of packages.
  const requirements = await readRequirements(dependencies, site);
  if (requirements) await target.install(requirements);
  await target.runCommands("shell_commands", after);
  await target.finish(customRuntime === null);
  return await target.keep();
}
