import path from "node:path";
import type { Settings } from "../config/setting-keys.ts";
import type { Clock } from "../kit/clock.ts";
import type { BlobStore } from "./blob-store.ts";
import { DirectoryBlobs } from "./directory-blobs.ts";
import { S3Blobs } from "./s3/s3-blobs.ts";

/** Opens the store that the settings name, a folder of the data directory where they name none. */
export async function openBlobs(
  { blobs: address, dataDir }: Pick<Settings, "blobs" | "dataDir">,
  clock: Clock,
): Promise<BlobStore> {
  const own = path.join(dataDir, "blobs");
  if (address?.kind === "s3")
    return await S3Blobs.open(address, { spoolDir: path.join(own, "incoming"), clock });
  return await DirectoryBlobs.open(address?.path ?? own);
}
