import type { Seal } from "../kit/seal.ts";
import type { Store } from "../store/store.ts";

const CHECK = "master_key_check";

/** The master key is not the one that the database's secrets are sealed with. */
class WrongMasterKey extends Error {
  constructor(file: string, cause?: unknown) {
    super(
      `${file} is not the master key of this database: the secrets in it cannot be read. ` +
        "Copy master.key from a service that uses this database, or from a backup, and name it with MILLRACE_MASTER_KEY_FILE",
      { cause },
    );
    this.name = "WrongMasterKey";
  }
}

/**
 * Opens what is sealed, if the key is the right one. The database holds a value that only this key makes; it is put
 * there once something has been opened with it, as a database of an earlier release has none.
 */
export async function withMasterKey<Opened>(
  store: Pick<Store, "meta">,
  seal: Seal,
  file: string,
  open: () => Promise<Opened>,
): Promise<Opened> {
  const own = seal.mark(Buffer.alloc(0), CHECK).toString("hex");
  const stored = await store.meta.get(CHECK);
  if (stored !== null && stored !== own) throw new WrongMasterKey(file);
  const opened = await open().catch((error: unknown) => {
    throw error instanceof Error && error.message.includes("unable to authenticate")
      ? new WrongMasterKey(file, error)
      : error;
  });
  if ((await store.meta.setIfAbsent({ key: CHECK, value: own })) !== own) throw new WrongMasterKey(file);
  return opened;
}
