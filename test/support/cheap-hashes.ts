import { type Hash, scryptHash } from "../../src/identity/passwords.ts";

/** Of a hash that takes a fraction of a millisecond; the service's own takes some tenths of a second of a processor. */
export const LOW_COST = { N: 2 ** 4, r: 1, p: 1 };

/** Hashes passwords in no time, whatever they are to cost. */
export const cheapHash: Hash = async (password, salt) => await scryptHash(password, salt, LOW_COST);
