import { createHash } from "node:crypto";
import { existsSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import path from "node:path";
import { openV1, openV2, V1, V2 } from "./cgroup-versions.ts";
import { clearGroups, CONTROLLERS, findOwnCgroups, Hierarchy, removeGroup } from "./hierarchy.ts";
import type { Controller, OwnCgroups } from "./hierarchy.ts";
import { isOurs, tryGroup } from "./try-group.ts";

/** Records where the groups are, for the next start, which may be in another group. */
const NOTE = "limit-groups.json";

/** The usable control groups, and why each other controller cannot be used. */
export type FoundHierarchy = {
  readonly hierarchy: Hierarchy | null;
  readonly lacking: ReadonlyMap<Controller, string>;
};

/**
 * Tries control groups of version 2, then of version 1. Removes groups that a killed service of the same data directory
 * left. `mayMove` is false for processes other than the service, which must not move into a leaf.
 */
export async function findHierarchy(dataDir: string, mayMove = true): Promise<FoundHierarchy> {
  const name = groupName(dataDir);
  const read = (file: string): string => readFileSync(`/proc/self/${file}`, "latin1");
  const own = findOwnCgroups(read("cgroup"), read("mountinfo"));
  if (mayMove) await clearNoted(dataDir, name);
  const lacking = new Map<Controller, string>();
  const search = { own, name, mayMove, lacking };
  const found = (await tryV2(search)) ?? (await tryV1(search));
  const roots = JSON.stringify([...new Set(found?.roots.values())]);
  if (found && mayMove) writeFileSync(path.join(dataDir, NOTE), roots, { mode: 0o600 });
  return { hierarchy: found, lacking };
}

function groupName(dataDir: string): string {
  const real = existsSync(dataDir) ? realpathSync(dataDir) : path.resolve(dataDir);
  return `millrace-${createHash("sha256").update(real).digest("hex").slice(0, 12)}`;
}

type Search = {
  readonly own: OwnCgroups;
  readonly name: string;
  readonly mayMove: boolean;
  readonly lacking: Map<Controller, string>;
};

async function tryV2({ own: { v2 }, name, mayMove, lacking }: Search): Promise<Hierarchy | null> {
  try {
    if (v2 === null) throw new Error("there are no control groups of version 2");
    if (!mayMove) throw new Error("only a running service can tell what it may do with control groups");
    const root = openV2(v2, name, isOurs);
    const hierarchy = new Hierarchy(V2, new Map(CONTROLLERS.map((controller) => [controller, root])));
    await hierarchy.clear();
    await tryGroup(hierarchy);
    return hierarchy;
  } catch (error) {
    for (const controller of CONTROLLERS) lacking.set(controller, (error as Error).message);
    return null;
  }
}

/** Tries all controllers together, then each alone: some hosts give only some of them. */
async function tryV1(search: Search): Promise<Hierarchy | null> {
  const { own, lacking } = search;
  const controllers = [...own.v1.keys()];
  const roots = new Map<Controller, string>();
  for (const some of [controllers, ...controllers.map((controller) => [controller])]) {
    if (roots.size === controllers.length) break;
    try {
      const tried = await tryControllers(search, some);
      for (const [controller, root] of tried.roots) {
        roots.set(controller, root);
        lacking.delete(controller);
      }
    } catch (error) {
      for (const controller of some) lacking.set(controller, (error as Error).message);
    }
  }
  return roots.size > 0 ? new Hierarchy(V1, roots) : null;
}

async function tryControllers({ own, name, mayMove }: Search, controllers: readonly Controller[]) {
  // A check must not touch the groups of a service.
  const place = mayMove ? name : `${name}-${process.pid}`;
  const tried = new Hierarchy(V1, new Map(controllers.map((each) => [each, openV1(own, each, place)])));
  if (mayMove) await tried.clear();
  await tryGroup(tried);
  if (!mayMove) await tried.remove();
  return tried;
}

/** Removes the groups that the last service of this directory left. */
async function clearNoted(dataDir: string, name: string): Promise<void> {
  let noted: unknown;
  try {
    noted = JSON.parse(readFileSync(path.join(dataDir, NOTE), "utf8"));
  } catch {
    return; // It left no note, or none that can be read.
  }
  if (!Array.isArray(noted)) return;
  for (const root of noted) {
    // Only a control group has such a file, and no other service has the name.
    if (typeof root !== "string" || path.basename(root) !== name) continue;
    if (!existsSync(path.join(root, "cgroup.procs"))) continue;
    await clearGroups(root);
    await removeGroup(root);
  }
}
