import { scrypt } from "node:crypto";
import type { Clock } from "../kit/clock.ts";
import { FairLane } from "../kit/concurrency.ts";
import { addressKey } from "../kit/ip-addresses.ts";
import type { Seal } from "../kit/seal.ts";
import type { AppError } from "../model/errors.ts";
import { tooMany } from "./throttle.ts";

/** OWASP's figures for 16 MiB. */
const COST = { N: 2 ** 14, r: 8, p: 5 };
const SALT_BYTES = 16;
const HASH_BYTES = 32;
/**
 * One hash at a time: each takes 16 MiB and tenths of a second on a thread that file access also needs. Network addresses
 * take turns, so that one that tries many passwords does not block others.
 */
const LANE = { total: 1, perKey: 1, waiting: 16, waitMs: 10_000 };
const BUSY_WAIT_MS = 5_000;

export type Hash = (password: string, salt: Buffer, cost: typeof COST) => Promise<Buffer>;

/**
 * Derives the key by which a person is found from an address and a password: one scrypt hash, then a MAC with the master
 * key, so that a copy of the database allows no guessing. The salt is derived from the address, so that the work does not
 * depend on how many people have it.
 */
export class Passwords {
  readonly #seal: Seal;
  readonly #hash: Hash;
  readonly #lane: FairLane;

  constructor(seal: Seal, clock: Clock, hash: Hash = scryptHash) {
    this.#seal = seal;
    this.#hash = hash;
    this.#lane = new FairLane(LANE, clock);
  }

  /** For a caller at that network address; throws `too_many_requests` if too many are waiting. */
  async key(email: string, password: string, ip: string): Promise<Buffer> {
    const salt = this.#seal.mark(Buffer.from(email), "people/salt").subarray(0, SALT_BYTES);
    const crowded = (): AppError => tooMany(BUSY_WAIT_MS);
    // The same text in another Unicode form is the same password.
    const work = async () => await this.#hash(password.normalize("NFKC"), salt, COST);
    const hash = await this.#lane.run(addressKey(ip), crowded, work);
    return this.#seal.mark(hash, `people/sign-in/${email}`);
  }
}

export async function scryptHash(password: string, salt: Buffer, cost: typeof COST): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  scrypt(password, salt, HASH_BYTES, cost, (error, hash) => (error ? reject(error) : resolve(hash)));
  return await promise;
}
