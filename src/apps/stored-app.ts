import type { App, Version } from "../model/app.ts";
import type { Store } from "../store/store.ts";
import type { VersionFiles } from "./artifacts/version-files.ts";

type StoredParts = {
  readonly store: Pick<Store, "apps" | "versions">;
  /** What brings files of other nodes; null for a service alone. */
  readonly files: Pick<VersionFiles, "ensure"> | null;
};

/** An app, and the version it serves, whose files are on this machine by then; null for none. Throws why they are not. */
export async function findStored(
  appNumber: number,
  { store, files }: StoredParts,
): Promise<{ readonly app: App; readonly version: Version } | null> {
  const app = await store.apps.findByNumber(appNumber);
  const version = app?.currentVersionId ? await store.versions.find(app.currentVersionId) : null;
  if (!app || !version) return null;
  await files?.ensure(version);
  return { app, version };
}

/** Whether the files of a version are on this machine, or come there from another node. */
export async function hasFiles(version: Version, files: StoredParts["files"]): Promise<boolean> {
  // Whoever has them not has told why.
  return files === null || (await files.ensure(version).catch(() => null)) !== null;
}
