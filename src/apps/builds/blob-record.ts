import { readFileSync } from "node:fs";
import path from "node:path";
import { writeFile } from "../../kit/files.ts";
import type { EnvironmentBlob } from "../../store/apps/versions.ts";

/** In an environment's folder, in place of its packages: those are in a blob, for other machines. */
export const BLOB_RECORD = "blob.json";

/** An environment that was built elsewhere. */
type BlobRecord = EnvironmentBlob & {
  /** When its blob was put, in epoch milliseconds by this service's clock: one that nobody names is collected later. */
  readonly putAt: number;
};

export async function writeBlobRecord(environment: string, record: BlobRecord): Promise<void> {
  await writeFile(path.join(environment, BLOB_RECORD), JSON.stringify(record));
}

/** The blob that holds an environment; null where it is a folder of packages. */
export function readBlobRecord(environment: string): BlobRecord | null {
  try {
    // Only the service writes it.
    // oxlint-disable-next-line no-unsafe-type-assertion
    return JSON.parse(readFileSync(path.join(environment, BLOB_RECORD), "utf8")) as BlobRecord;
  } catch {
    return null;
  }
}
