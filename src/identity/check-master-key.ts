import type { Seal } from "../kit/seal.ts";
import type { Store } from "../store/store.ts";

const CHECK = "master_key_check";

/** The master key is not the one that the database's secrets are sealed with. */
class WrongMasterKey extends Error {
  constructor(file: string) {
    super(
      `${file} is not the master key of this database: the secrets in it cannot be read. ` +
        "Copy master.key from a service that uses this database, or from a backup, and name it with MILLRACE_MASTER_KEY_FILE",
    );
    this.name = "WrongMasterKey";
  }
}

/**
 * Throws if the key is not that of the database, which holds a value that only its key makes. The first start puts the
 * value there, before anything is sealed.
 */
export async function checkMasterKey(store: Pick<Store, "meta">, seal: Seal, file: string): Promise<void> {
  const own = seal.mark(Buffer.alloc(0), CHECK).toString("hex");
  if ((await store.meta.setIfAbsent({ key: CHECK, value: own })) !== own) throw new WrongMasterKey(file);
}
