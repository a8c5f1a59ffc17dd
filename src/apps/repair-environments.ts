import path from "node:path";
import type { Log } from "../kit/log.ts";
import { existsSync } from "node:fs";
import { artifactFolder, artifactFolders, artifactId } from "../host/data-folders.ts";
import type { Version } from "../model/app.ts";
import { pythonWish } from "../model/app-config.ts";
import type { Store } from "../store/store.ts";
import { settleMovedEnvironments } from "./builds/moved-environments.ts";
import { buildHost, type BuildHost, type ImageHost } from "./builds/site.ts";
import { versionFault } from "./builds/version-fault.ts";
import { cp, mkdir } from "../kit/files.ts";
import { removeTree } from "../kit/remove-tree.ts";
import { prepareBuild } from "./builds/build.ts";
import type { PreparedBuild } from "./builds/commands.ts";

type ServiceParts = Omit<RepairParts, "say" | "signal"> & { readonly log: Log };

/** Repairs of a running service, one at a time. */
export class Repairs {
  readonly #parts: ServiceParts;
  readonly #stopping = new AbortController();
  #underWay: Promise<Repaired[]> | null = null;

  constructor(parts: ServiceParts) {
    this.#parts = parts;
  }

  /** Installs missing packages again; a repair that is under way answers all callers. */
  async repair(): Promise<Repaired[]> {
    const { log } = this.#parts;
    const say = (detail: string): void => log.debug({ detail }, "reinstalling an app's packages");
    this.#underWay ??= repairEnvironments({ ...this.#parts, say, signal: this.#stopping.signal }).finally(
      () => (this.#underWay = null),
    );
    return await this.#underWay;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#underWay?.catch(() => undefined);
  }
}

type RebuildParts = BuildHost & {
  readonly say: (text: string) => void;
  readonly signal: AbortSignal;
};

type RepairParts = RebuildParts & {
  readonly store: Pick<Store, "apps" | "versions">;
  readonly images: ImageHost;
  readonly onRebuilt?: (version: Version) => void;
};

export type Repaired = {
  /** As `p-1a2b3c4d-name`. */
  readonly app: string;
  readonly version: number;
  /** Why they could not be installed again; null when they were. */
  readonly problem: string | null;
};

/** Installs a version's packages again if they are missing, or are for another Python than there is. */
export async function repairEnvironments(parts: RepairParts): Promise<Repaired[]> {
  const { store, dataDir, python, signal } = parts;
  const { containers } = parts.images;
  await settleMovedEnvironments(dataDir);
  const apps = new Map((await store.apps.listAll()).map((app) => [app.number, app]));
  const repaired: Repaired[] = [];
  for (const version of await store.versions.listAll()) {
    const app = apps.get(version.appNumber);
    const wish = pythonWish(version.config.deployment);
    const built = { ...artifactFolders(version, dataDir), python: wish };
    // It is fetched when it is needed.
    if (version.environmentBlob !== null && built.environment !== null && !existsSync(built.environment))
      continue;
    if (!app || (await versionFault(built, python.path, dataDir, containers))?.what !== "environment")
      continue;
    const work = path.join(dataDir, "work", `repair-${version.id}`);
    let problem: string | null = null;
    try {
      await rebuildVersion(app.projectId, version, work, parts, async (made) => {
        const environment = made.environment && artifactId(made.environment, dataDir);
        await store.versions.setEnvironment({ id: version.id, environment });
        parts.onRebuilt?.({ ...version, environment });
      });
    } catch (error) {
      signal.throwIfAborted();
      problem = error instanceof Error ? error.message : String(error);
    }
    repaired.push({ app: `${app.projectId}-${app.name}`, version: version.number, problem });
  }
  return repaired;
}

/** Installs a version's packages again; its commands run in a copy of its bundle, which has what they made already. */
export async function rebuildVersion(
  projectId: string,
  version: Version,
  work: string,
  parts: RebuildParts & { readonly environmentDir?: string },
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
