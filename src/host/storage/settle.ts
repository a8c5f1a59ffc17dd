import path from "node:path";
import { readdirSync, realpathSync } from "node:fs";
import { z } from "zod";
import type { Settings } from "../../config/setting-keys.ts";
import type { UidRange } from "../../config/service-keys.ts";
import type { Log } from "../../kit/log.ts";
import { PROJECT_ID } from "../../model/names.ts";
import { storageFolder } from "../data-folders.ts";
import { chmod, chownTree, lchown, readdir } from "../../kit/files.ts";
import type { WallLevel } from "../walls/walls.ts";
import { StorageFolders, freeUser, ownerOf } from "./folders.ts";
import { askModule } from "../interpreter.ts";

export type SettleParts = Pick<Settings, "dataDir" | "uidRange"> & {
  readonly level: WallLevel | null;
  readonly python: string;
  readonly log: Log;
};

const LEFT = z.object({ count: z.number() });

/**
 * Gives the files of each project to its user on level `uid`, and to the service's own user below that, if the service is
 * root. No app may run yet. Continues an interrupted earlier start.
 */
export async function settleStorage(parts: SettleParts): Promise<StorageFolders> {
  const { dataDir, uidRange, level } = parts;
  const range = level === "uid" ? uidRange : null;
  const own = process.getuid?.();
  if (own !== 0) return new StorageFolders(dataDir);
  const users = range === null ? null : assign(dataDir, range);
  for (const projectId of projectsIn(dataDir)) {
    const folder = realpathSync(storageFolder(projectId, dataDir));
    const user = users?.get(projectId) ?? own;
    const owner = ownerOf(folder);
    if (owner.user === user && owner.isSettled) continue;
    // First: after an interrupted start the storage is unchanged, so both are repeated.
    await giveDeployed(dataDir, projectId, user);
    await give(folder, user, projectId, parts);
  }
  return new StorageFolders(dataDir, range, users ?? undefined);
}

/** Projects keep their users; of two with the same one, as after a copy, the first does. */
function assign(dataDir: string, range: UidRange): Map<string, number> {
  const users = new Map<string, number>();
  const taken = new Set<number>();
  const give = (projectId: string, user: number): void => {
    users.set(projectId, user);
    taken.add(user);
  };
  const projects = projectsIn(dataDir);
  for (const projectId of projects) {
    const { user } = ownerOf(storageFolder(projectId, dataDir));
    if (user >= range.first && user <= range.last && !taken.has(user)) give(projectId, user);
  }
  for (const projectId of projects) if (!users.has(projectId)) give(projectId, freeUser(range, taken));
  return users;
}

function projectsIn(dataDir: string): string[] {
  try {
    return readdirSync(path.join(dataDir, "storage")).filter((name) => PROJECT_ID.test(name));
  } catch {
    return []; // There is none yet.
  }
}

async function give(
  folder: string,
  user: number,
  projectId: string,
  { python, dataDir, log }: SettleParts,
): Promise<void> {
  const aside = path.join(dataDir, "storage", ".aside", projectId);
  log.info({ projectId }, "the files of a project are given to another user");
  const said = await askModule(python, "millrace_storage.adopt", { folder, user, aside }).catch(
    (error: Error) => {
      const why = `the storage of ${projectId} cannot be given to user ${user}`;
      throw new Error(`${why}: ${error.message}`, { cause: error });
    },
  );
  const { count } = LEFT.parse(JSON.parse(said));
  if (count > 0)
    log.warn(
      { projectId, count, folder: aside },
      "files in a project's storage were not given to its user: those that have names elsewhere too were put aside, what is mounted there or lies too deep stays as it is",
    );
}

/** Gives a project's bundles and packages to its user: after a change of level, its apps could not use them otherwise. */
async function giveDeployed(dataDir: string, projectId: string, user: number): Promise<void> {
  const bundles = path.join(dataDir, "bundles", projectId);
  for (const app of await namesIn(bundles)) await chownTree(path.join(bundles, app), user);
  const environments = path.join(dataDir, "environments");
  for (const name of await namesIn(environments)) {
    if (!name.startsWith(`${projectId}-`)) continue;
    const environment = path.join(environments, name);
    await chownTree(environment, user);
    // The service writes its marker there.
    await lchown(environment, 0, 0);
    await chmod(environment, 0o755);
  }
}

async function namesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []); // There is none yet.
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}
