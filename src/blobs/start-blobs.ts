import path from "node:path";
import type { Settings } from "../config/setting-keys.ts";
import type { Clock } from "../kit/clock.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { BlobStore } from "./blob-store.ts";
import { DirectoryBlobs } from "./directory-blobs.ts";
import { S3Blobs } from "./s3/s3-blobs.ts";

type Place = Pick<Settings, "blobs" | "dataDir">;

/** Opens the store that the settings name; null on SQLite: a service alone has every file where it needs it. */
export async function startBlobs(
  settings: Place,
  database: "sqlite" | "postgres",
  clock: Clock,
  life: Lifecycle,
): Promise<BlobStore | null> {
  if (database === "sqlite") return null;
  return await life.start(
    "blobs",
    () => openBlobs(settings, clock),
    (opened) => opened.close(),
  );
}

/** A folder of the data directory where the settings name no place. */
async function openBlobs({ blobs: address, dataDir }: Place, clock: Clock): Promise<BlobStore> {
  const own = path.join(dataDir, "blobs");
  if (address?.kind === "s3")
    return await S3Blobs.open(address, { spoolDir: path.join(own, "incoming"), clock });
  return await DirectoryBlobs.open(address?.path ?? own);
}
