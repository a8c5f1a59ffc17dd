import { statSync } from "node:fs";
import path from "node:path";
import type { Settings } from "../config/setting-keys.ts";
import { loadMasterKey } from "../kit/seal.ts";

type KeyPlace = Pick<Settings, "dataDir" | "masterKeyFile">;

/** What it is called in a data directory and in an archive. */
export const MASTER_KEY = "master.key";

/** Where the master key is. */
export function masterKeyPath({ dataDir, masterKeyFile }: KeyPlace): string {
  return masterKeyFile ?? path.join(dataDir, MASTER_KEY);
}

/** Of the file that the settings name, or of the data directory, where the first start makes it. */
export function openMasterKey(place: KeyPlace): Buffer {
  const problem = place.masterKeyFile === null ? null : keyFileProblem(place.masterKeyFile);
  if (problem !== null) throw new Error(`MILLRACE_MASTER_KEY_FILE: ${problem}`);
  return loadMasterKey(masterKeyPath(place));
}

/**
 * Why a file that was named is not used; null when it is. A new key in its place would fit no database, so none is
 * made. Its group may read it: that is how systemd and Kubernetes hand secrets to a service.
 */
export function keyFileProblem(file: string): string | null {
  const found = statSync(file, { throwIfNoEntry: false });
  if (!found) return `${file} does not exist; copy the installation's master.key there`;
  if (!found.isFile()) return `${file} is not a file`;
  return (found.mode & 0o007) === 0 ? null : `other users can read ${file}; chmod 600 ${file}`;
}
