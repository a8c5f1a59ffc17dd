import { statSync } from "node:fs";
import path from "node:path";
import type { Settings } from "../config/setting-keys.ts";
import { loadMasterKey, type Seal } from "../kit/seal.ts";
import type { Store } from "../store/store.ts";

type KeyPlace = Pick<Settings, "dataDir" | "masterKeyFile">;

/** The file's name in a data directory and in an archive. */
export const MASTER_KEY = "master.key";

export function masterKeyPath({ dataDir, masterKeyFile }: KeyPlace): string {
  return masterKeyFile ?? path.join(dataDir, MASTER_KEY);
}

/** Reads the key from the file in the settings, or from the data directory, where the first start creates it. */
export function openMasterKey(place: KeyPlace): Buffer {
  const problem = place.masterKeyFile === null ? null : keyFileProblem(place.masterKeyFile);
  if (problem !== null) throw new Error(`MILLRACE_MASTER_KEY_FILE: ${problem}`);
  return loadMasterKey(masterKeyPath(place));
}

/**
 * Why the file in the settings cannot be used; null if it can. It is not created, because a new key would fit no database.
 * Its group may read it, as with secrets from systemd and Kubernetes.
 */
export function keyFileProblem(file: string): string | null {
  const found = statSync(file, { throwIfNoEntry: false });
  if (!found) return `${file} does not exist; copy the installation's master.key there`;
  if (!found.isFile()) return `${file} is not a file`;
  return (found.mode & 0o007) === 0 ? null : `other users can read ${file}; chmod 600 ${file}`;
}

const CHECK = "master_key_check";

/** Throws if the key is not the database's. The first start stores a value that only its key can make. */
export async function checkMasterKey(store: Pick<Store, "meta">, seal: Seal, file: string): Promise<void> {
  const own = seal.mark(Buffer.alloc(0), CHECK).toString("hex");
  if ((await store.meta.setIfAbsent({ key: CHECK, value: own })) === own) return;
  throw new Error(
    `${file} is not the master key of this database: the secrets in it cannot be read. ` +
      "Copy master.key from a service that uses this database, or from a backup, and name it with MILLRACE_MASTER_KEY_FILE",
  );
}
