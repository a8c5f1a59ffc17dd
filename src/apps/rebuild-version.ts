import path from "node:path";
import { artifactFolder } from "../host/data-folders.ts";
import { cp, mkdir } from "../kit/files.ts";
import { removeTree } from "../kit/remove-tree.ts";
import type { Version } from "../model/app.ts";
import { prepareBuild } from "./builds/build.ts";
import { type BuildHost, buildHost } from "./builds/site.ts";
import type { PreparedBuild } from "./builds/target.ts";

export type RebuildParts = BuildHost & {
  /** Takes the lines of installers. */
  readonly say: (text: string) => void;
  readonly signal: AbortSignal;
  /** Where its packages go, if not where their key says. */
  readonly environmentDir?: string;
};

/**
 * Installs the packages of a version again, from its bundle. Its build commands run in a copy of that, made in `work`:
 * what they made of the bundle is there already.
 */
export async function rebuildVersion(
  projectId: string,
  version: Version,
  work: string,
  parts: RebuildParts,
  keep: (built: PreparedBuild) => Promise<void>,
): Promise<void> {
  const { dataDir, say, signal, environmentDir } = parts;
  const bundleDir = path.join(work, "bundle");
  try {
    await mkdir(work, { recursive: true, mode: 0o700 });
    await cp(artifactFolder(version.bundle, dataDir), bundleDir, { recursive: true, verbatimSymlinks: true });
    const { id: buildId, config } = version;
    const input = { ...buildHost(parts), buildId, projectId, bundleDir, config, say, signal };
    await prepareBuild({ ...input, ...(environmentDir !== undefined && { environmentDir }) }, keep);
  } finally {
    await removeTree(work);
  }
}
