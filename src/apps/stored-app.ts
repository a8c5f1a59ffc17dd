import { artifactFolders } from "../host/artifacts.ts";
import { stat } from "../kit/files.ts";
import type { App, Version } from "../model/app.ts";
import type { Store } from "../store/store.ts";

/** An app, and the version it serves, whose files are here; null when there is none. */
export async function findStored(
  appNumber: number,
  { store, dataDir }: { readonly store: Pick<Store, "apps" | "versions">; readonly dataDir: string },
): Promise<{ readonly app: App; readonly version: Version } | null> {
  const app = await store.apps.findByNumber(appNumber);
  const version = app?.currentVersionId ? await store.versions.find(app.currentVersionId) : null;
  return app && version && (await hasFiles(version, dataDir)) ? { app, version } : null;
}

/** Whether the bundle and the environment of a version are on this machine. */
async function hasFiles(version: Version, dataDir: string): Promise<boolean> {
  const { bundle, environment } = artifactFolders(version, dataDir);
  const wanted = environment === null ? [bundle] : [bundle, environment];
  const found = await Promise.allSettled(wanted.map((folder) => stat(folder)));
  return found.every(({ status }) => status === "fulfilled");
}
