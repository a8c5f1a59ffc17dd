import { copyFile, mkdir, readdir } from "node:fs/promises";
import path from "node:path";
import { onTestFinished } from "vitest";
import { VersionFiles } from "../../../src/apps/artifacts/version-files.ts";
import type { BlobStore } from "../../../src/blobs/blob-store.ts";
import { DirectoryBlobs } from "../../../src/blobs/directory-blobs.ts";
import type { UidRange } from "../../../src/config/uid-range.ts";
import { findInterpreter } from "../../../src/host/interpreter.ts";
import { StorageFolders } from "../../../src/host/storage/folders.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { createLog } from "../../../src/kit/log.ts";
import type { Version } from "../../../src/model/app.ts";
import { openStore } from "../../../src/store/store.ts";
import type { Store } from "../../../src/store/store.ts";
import type { TestDatabase, testDatabases } from "../../support/databases.ts";
import { deployPolite, during, scratch } from "../moved/site.ts";

/** An installation whose first node has deployed an app with packages, and ended. */
export type Deployed = {
  readonly folder: string;
  readonly first: TestDatabase;
  readonly blobs: BlobStore;
  readonly store: Store;
  readonly version: Version;
};

/** Deploys an app on one node, with its blobs in the data directory. */
export async function deployed(databases: ReturnType<typeof testDatabases>): Promise<Deployed> {
  const folder = await scratch();
  const { databaseUrl } = await databases.fresh("postgres");
  const first = { databaseUrl, dataDir: path.join(folder, "first", "data") };
  await during(first, async (service) => await deployPolite(service, folder));
  const store = await openStore(first);
  onTestFinished(async () => await store.close());
  const [version] = await store.versions.listAll();
  return {
    folder,
    first,
    blobs: await DirectoryBlobs.open(path.join(first.dataDir, "blobs")),
    store,
    version: version!,
  };
}

/** Another node of the installation, as far as files go, in a directory of its own. */
export async function otherNode({ folder, first, blobs, store }: Deployed, users: UidRange | null = null) {
  const dataDir = path.join(folder, "a directory of another name", "data");
  await mkdir(dataDir, { recursive: true });
  await copyFile(path.join(first.dataDir, "master.key"), path.join(dataDir, "master.key"));
  const files = new VersionFiles({
    store,
    blobs,
    dataDir,
    python: await findInterpreter("python3"),
    walls: null,
    limits: null,
    storage: new StorageFolders(dataDir, users),
    images: null,
    clock: systemClock,
    log: createLog("silent"),
  });
  onTestFinished(async () => await files.stop());
  return { files, database: { ...first, dataDir } };
}

/** The names in a folder, none if there is no such folder. */
export async function namesOf(...place: string[]): Promise<string[]> {
  return await readdir(path.join(...place)).catch(() => []);
}
