import path from "node:path";
import { lstat, readdir } from "../kit/files.ts";
import type { AppStorage } from "../store/app-storage.ts";
import type { Store } from "../store/store.ts";

/** Who uses what of the disk and the database, in bytes. */
export type StorageReport = {
  readonly apps: readonly (AppStorage & { readonly bundleBytes: number })[];
  readonly environmentBytes: number;
  /** The persistent storage of each project. */
  readonly volumes: readonly { readonly projectId: string; readonly bytes: number }[];
  /** The SQLite file and its log; 0 with Postgres. */
  readonly databaseBytes: number;
  /** Inside that file, for what comes next. */
  readonly freeBytes: number;
};

/** Looks through the data directory and the database. */
export async function storageReport(
  store: Pick<Store, "appStorage" | "space">,
  dataDir: string,
): Promise<StorageReport> {
  const apps: (AppStorage & { bundleBytes: number })[] = [];
  for (const app of await store.appStorage.list()) {
    const bundles = path.join(dataDir, "bundles", app.projectId, app.name);
    apps.push({ ...app, bundleBytes: await bytesBelow(bundles) });
  }
  const volumes: { projectId: string; bytes: number }[] = [];
  for (const projectId of await namesIn(path.join(dataDir, "storage"))) {
    if (!projectId.startsWith("p-")) continue;
    volumes.push({ projectId, bytes: await bytesBelow(path.join(dataDir, "storage", projectId)) });
  }
  let databaseBytes = 0;
  for (const name of ["millrace.db", "millrace.db-wal"]) {
    databaseBytes += await bytesBelow(path.join(dataDir, name));
  }
  return {
    apps,
    volumes,
    databaseBytes,
    environmentBytes: await bytesBelow(path.join(dataDir, "environments")),
    freeBytes: await store.space.freeBytes(),
  };
}

/** What a file, or all below a folder, takes up on the disk; links are not followed. */
export async function bytesBelow(place: string): Promise<number> {
  const stats = await lstat(place).catch(() => null);
  if (!stats) return 0;
  let bytes = stats.blocks * 512;
  if (!stats.isDirectory()) return bytes;
  for (const name of await namesIn(place)) bytes += await bytesBelow(path.join(place, name));
  return bytes;
}

async function namesIn(folder: string): Promise<string[]> {
  return await readdir(folder).catch(() => []);
}
