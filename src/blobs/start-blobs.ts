import path from "node:path";
import type { Settings } from "../config/setting-keys.ts";
import type { Clock } from "../kit/clock.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { BlobStore } from "./blob-store.ts";
import { DirectoryBlobs } from "./directory-blobs.ts";
import { S3Blobs } from "./s3/s3-blobs.ts";

type Place = Pick<Settings, "blobs" | "dataDir">;

/**
 * The blobs of versions (bundles and environments), and those of runs in a folder of the same place: they change faster,
 * and are collected separately.
 */
export type Blobs = { readonly blobs: BlobStore | null; readonly payloadBlobs: BlobStore | null };

/** Opens the stores. Null on SQLite: a single service has all files at hand, and payloads in the database. */
export async function startBlobs(
  settings: Place,
  database: "sqlite" | "postgres",
  clock: Clock,
  life: Lifecycle,
): Promise<Blobs> {
  if (database === "sqlite") return { blobs: null, payloadBlobs: null };
  const start = async (folder: string, freshMs?: number): Promise<BlobStore> =>
    await life.start(
      "blobs",
      () => openBlobs(settings, clock, folder, freshMs),
      (opened) => opened.close(),
    );
  return { blobs: await start(""), payloadBlobs: await start("payloads/", PAYLOAD_FRESH_MS) };
}

/** Well below the hour after which a blob that no run names is removed (`src/runs/large-payloads.ts`). */
const PAYLOAD_FRESH_MS = 20 * 60 * 1000;

/** Uses a folder of the data directory if the settings name no place. */
async function openBlobs({ blobs: address, dataDir }: Place, clock: Clock, folder: string, freshMs?: number) {
  const own = path.join(dataDir, "blobs");
  if (address?.kind !== "s3") return await DirectoryBlobs.open(path.join(address?.path ?? own, folder));
  const options = { spoolDir: path.join(own, "incoming"), clock, ...(freshMs !== undefined && { freshMs }) };
  return await S3Blobs.open({ ...address, prefix: address.prefix + folder }, options);
}
