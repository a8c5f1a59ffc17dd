import { chownTree, mkdir } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { byNames } from "../../host/app-python.ts";
import { makeScratch, removeScratch } from "../../host/walls/scratch.ts";
import { touchCache } from "./build-environment.ts";
import { type BuildTarget, type PreparedBuild, readCommands } from "./commands.ts";
import { releaseEnvironments } from "./environments.ts";
import { checkHost } from "./host-fit.ts";
import { buildInImage } from "./images/make-image.ts";
import { buildOnThisMachine } from "./local-target.ts";
import { buildInSeat } from "./remote/remote-target.ts";
import { readRequirements } from "./requirements.ts";
import type { BuildInput, BuildSite } from "./site.ts";

/** Makes a bundle ready to run. Throws a `BuildError` or the signal's reason. What it made is not swept before `keep` ends. */
export async function prepareBuild<Kept>(
  input: BuildInput,
  keep: (built: PreparedBuild) => Promise<Kept> | Kept,
): Promise<Kept> {
  return await atSite(input, async (site) => {
    await touchCache(input.dataDir, input.projectId);
    return await keep(await prepare(site));
  });
}

/** Makes the folders that every build needs, does the work, and removes them. */
export async function atSite<Made>(
  input: BuildInput,
  work: (site: BuildSite) => Promise<Made>,
): Promise<Made> {
  const { bundleDir, dataDir, walls, python } = input;
  const user = input.storage.userOf(input.projectId);
  const scratch = walls && makeScratch(dataDir, user);
  const asideDir = `${bundleDir}.aside`;
  const appPython = byNames(python.path, dataDir);
  try {
    await removeTree(asideDir);
    await mkdir(asideDir, { recursive: true });
    // Nothing of it has run yet.
    if (user !== null) await chownTree(bundleDir, user);
    return await work({ host: process.env, ...input, asideDir, user, scratch, appPython });
  } finally {
    releaseEnvironments(input.buildId);
    await removeTree(asideDir);
    if (scratch !== null) await removeScratch(scratch);
  }
}

async function prepare(site: BuildSite): Promise<PreparedBuild> {
  site.signal.throwIfAborted();
  if (site.remote) return await buildInSeat(site, site.remote, build);
  const image = await checkHost(site);
  return image === null ? await buildOnThisMachine(site, build) : await buildInImage(image, site, build);
}

async function build(target: BuildTarget, site: BuildSite): Promise<PreparedBuild> {
  await target.checkSyntax();
  const before = await readCommands("pre_build_commands", site);
  const after = await readCommands("shell_commands", site);
  // Commands that install something must not change packages that other versions share.
  if ([...before, ...after].some(({ installs }) => installs)) await target.makeOwn();
  await target.runCommands("pre_build_commands", before);
  // Only now: the commands may have written the list of packages.
  const requirements = await readRequirements(site);
  if (requirements) await target.install(requirements);
  await target.runCommands("shell_commands", after);
  await target.finish(site.config.customRuntime === null);
  return await target.keep();
}
