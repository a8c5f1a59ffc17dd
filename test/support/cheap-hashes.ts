import { keptSalt } from "../../src/identity/passwords.ts";
import type { Store } from "../../src/store/store.ts";

/** Of a hash that takes a fraction of a millisecond. */
export const LOW_COST = { N: 2 ** 4, r: 1, p: 1 };

const KEPT = keptSalt({ ...LOW_COST, salt: Buffer.alloc(16).toString("base64") });

/**
 * A store in which every address has kept a salt of low cost, as those of older releases have theirs: passwords are
 * hashed in no time, where the service's own cost takes some tenths of a second of a processor.
 */
export function withCheapHashes(store: Store): Store {
  const saltOf = async (email: string) => (await store.people.saltOf(email)) ?? KEPT;
  return { ...store, people: { ...store.people, saltOf } };
}
