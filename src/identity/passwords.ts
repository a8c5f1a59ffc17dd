import { scrypt } from "node:crypto";
import type { Clock } from "../kit/clock.ts";
import { FairLane } from "../kit/fair-lane.ts";
import { addressKey } from "../kit/listener/client-address.ts";
import type { Seal } from "../kit/seal.ts";
import { tooMany } from "./throttle.ts";

/** OWASP's figures for 16 MiB. */
const COST = { N: 2 ** 14, r: 8, p: 5 };
const SALT_BYTES = 16;
const HASH_BYTES = 32;
/**
 * One hash at a time: file access shares the threads on which it runs, and each takes 16 MiB and some tenths of a
 * second. Addresses take turns, so that whoever tries one password after the other keeps nobody else from signing in.
 */
const LANE = { total: 1, perKey: 1, waiting: 16, waitMs: 10_000 };
const BUSY_WAIT_MS = 5_000;

type Cost = { readonly N: number; readonly r: number; readonly p: number };
/** Turns a password into what is compared. */
export type Hash = (password: string, salt: Buffer, cost: Cost) => Promise<Buffer>;
type Salt = Cost & { readonly salt: string };

type PasswordParts = {
  readonly seal: Seal;
  readonly clock: Clock;
  /** What `keptSalt` wrote of that address, if it did. */
  readonly saltOf: (email: string) => Promise<string | null>;
};

/**
 * Makes of an address and a password the key by which their holder is found: one hash with scrypt, then marked, so
 * that a copy of the database gives nothing to guess at. The salt follows from the address: however many people
 * have it, and whether anybody has, the work is the same.
 */
export class Passwords {
  readonly #parts: PasswordParts;
  readonly #cost: Cost;
  readonly #hashNow: Hash;
  readonly #lane: FairLane;

  constructor(parts: PasswordParts, cost: Cost = COST, hash: Hash = scryptHash) {
    this.#parts = parts;
    this.#cost = cost;
    this.#hashNow = hash;
    this.#lane = new FairLane(LANE, parts.clock);
  }

  /** For a caller at that network address; throws `too_many_requests` if too many are waiting. */
  async key(email: string, password: string, ip: string): Promise<Buffer> {
    const { seal, saltOf } = this.#parts;
    const kept = await saltOf(email);
    const { salt, ...cost } =
      kept === null ? { ...this.#cost, salt: ownSalt(seal, email) } : readSalt(JSON.parse(kept) as Salt);
    return markHash(seal, email, await this.#hash(password, salt, cost, ip));
  }

  async #hash(password: string, salt: Buffer, cost: Cost, ip: string): Promise<Buffer> {
    const leave = await this.#lane.enter(addressKey(ip));
    if (!leave) throw tooMany(BUSY_WAIT_MS);
    try {
      // The same letters in another composition are the same password.
      return await this.#hashNow(password.normalize("NFKC"), salt, cost);
    } finally {
      leave();
    }
  }
}

/** The key that stands for a hash of an address's password. */
export function markHash(seal: Seal, email: string, hash: Buffer): Buffer {
  return seal.mark(hash, `people/sign-in/${email}`);
}

/** What is stored for an address whose salt is not derived from it. */
export function keptSalt({ N, r, p, salt }: Salt): string {
  return JSON.stringify({ N, r, p, salt });
}

function readSalt({ N, r, p, salt }: Salt) {
  return { N, r, p, salt: Buffer.from(salt, "base64") };
}

function ownSalt(seal: Seal, email: string): Buffer {
  return seal.mark(Buffer.from(email), "people/salt").subarray(0, SALT_BYTES);
}

/** By scrypt. */
export async function scryptHash(password: string, salt: Buffer, cost: Cost): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  scrypt(password, salt, HASH_BYTES, cost, (error, hash) => (error ? reject(error) : resolve(hash)));
  return await promise;
}
