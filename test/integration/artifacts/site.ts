import { execFile } from "node:child_process";
import { copyFile, mkdir, readdir } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";
import { VersionFiles } from "../../../src/apps/artifacts/version-files.ts";
import type { BlobStore } from "../../../src/blobs/blob-store.ts";
import { DirectoryBlobs } from "../../../src/blobs/directory-blobs.ts";
import type { UidRange } from "../../../src/config/service-keys.ts";
import { findInterpreter } from "../../../src/host/interpreter.ts";
import { StorageFolders } from "../../../src/host/storage/folders.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { createLog } from "../../../src/kit/log.ts";
import type { Version } from "../../../src/model/app.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import type { TestDatabase, testDatabases } from "../../support/databases.ts";
import { deployPolite, during, scratch } from "../moved/site.ts";

const execute = promisify(execFile);

/** An installation whose first node has deployed an app with packages, and ended. */
export type Deployed = {
  readonly folder: string;
  readonly first: TestDatabase;
  /** Its directory when the app was deployed. */
  readonly madeIn: string;
  readonly blobs: BlobStore;
  readonly store: Store;
  readonly version: Version;
};

/**
 * Installations where an app was deployed on one node, with its blobs in the data directory. To install packages takes
 * longer than the tests: it is done once, and each of them gets a copy.
 */
export function deployedCopies(databases: ReturnType<typeof testDatabases>): () => Promise<Deployed> {
  let making: Promise<TestDatabase> | null = null;
  return async () => {
    making ??= databases.fresh("postgres").then(deploy);
    const made = await making;
    const folder = await scratch();
    const { databaseUrl } = await databases.copy(made);
    const first = { databaseUrl, dataDir: path.join(folder, "first", "data") };
    await mkdir(path.dirname(first.dataDir));
    // With all that belongs to a file: times are part of what is packed.
    await execute("cp", ["-a", made.dataDir, first.dataDir]);
    const store = await openStore(first);
    onTestFinished(async () => await store.close());
    const [version] = await store.versions.listAll();
    const blobs = await DirectoryBlobs.open(path.join(first.dataDir, "blobs"));
    return { folder, first, madeIn: made.dataDir, blobs, store, version: version! };
  };
}

async function deploy({ databaseUrl, dataDir }: TestDatabase): Promise<TestDatabase> {
  const database = { databaseUrl, dataDir: path.join(dataDir, "data") };
  await during(database, async (service) => await deployPolite(service, dataDir));
  return database;
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
