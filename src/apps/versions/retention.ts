import { statSync } from "node:fs";
import path from "node:path";
import { artifactFolder } from "../../host/data-folders.ts";
import { readdir } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import type { Version } from "../../model/app.ts";
import type { Store } from "../../store/store.ts";

/** So many of an app's versions are kept to go back to, the newest first. */
export const KEPT_VERSIONS = 10;

/** Those of an app's versions, newest first, that are neither among the newest nor needed. */
export function outdated(versions: readonly Version[], isNeeded: (id: string) => boolean): Version[] {
  return versions.slice(KEPT_VERSIONS).filter(({ id }) => !isNeeded(id));
}

/** Removes versions that nobody needs, rows first: a row without its folder never stands. */
export async function removeVersions(
  { store, dataDir }: { readonly store: Store; readonly dataDir: string },
  versions: readonly Version[],
): Promise<void> {
  if (versions.length === 0) return;
  await store.versions.remove(versions.map(({ id }) => id));
  for (const { id, bundle } of versions) {
    // One that serves after all is not removed. A folder may be that of several versions.
    const others = await store.versions.list(versions[0]!.appNumber);
    if (others.some((other) => other.id === id || other.bundle === bundle)) continue;
    await removeTree(artifactFolder(bundle, dataDir));
  }
}

/**
 * Removes the folders below `bundlesDir` (project, app, version) that no version names, and that came there before that
 * time: of a later one, another service may be about to store the version.
 */
export async function removeUnnamedBundles(
  bundlesDir: string,
  named: ReadonlySet<string>,
  before = Number.POSITIVE_INFINITY,
): Promise<void> {
  for (const project of await foldersIn(bundlesDir)) {
    for (const app of await foldersIn(project)) {
      const bundles = await foldersIn(app);
      const unnamed = bundles.filter((bundle) => !named.has(bundle) && cameAt(bundle) < before);
      // An app without any is one that was deleted, or never came to serve.
      const gone = unnamed.length === bundles.length && cameAt(app) < before ? [app] : unnamed;
      for (const folder of gone) await removeTree(folder);
    }
  }
}

/** A folder that is put in its place is changed by that. */
function cameAt(folder: string): number {
  return statSync(folder, { throwIfNoEntry: false })?.ctimeMs ?? 0;
}

async function foldersIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  return entries.filter((entry) => entry.isDirectory()).map((entry) => path.join(folder, entry.name));
}
