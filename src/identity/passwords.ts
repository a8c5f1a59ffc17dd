import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import type { Seal } from "../kit/seal.ts";
import type { Person } from "../store/people.ts";
import { tooMany } from "./throttle.ts";

/** OWASP's figures for 16 MiB. Kept with each hash, so that a later release can ask for more. */
const COST = { N: 2 ** 14, r: 8, p: 5 };
const SALT_BYTES = 16;
const HASH_BYTES = 32;
/** A hash takes some tenths of a second; who would wait longer than this many is sent away. */
const MAX_WAITING = 32;
const BUSY_WAIT_MS = 5_000;

type Cost = { readonly N: number; readonly r: number; readonly p: number };
/** Turns a password into what is compared. */
export type Hash = (password: string, salt: Buffer, cost: Cost) => Promise<Buffer>;
type Kept = Cost & { readonly salt: string; readonly hash: string };

/** Keeps passwords: hashed with scrypt, then sealed, so that a copy of the database gives nothing to guess at. */
export class Passwords {
  readonly #seal: Seal;
  readonly #cost: Cost;
  readonly #hashNow: Hash;
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  constructor(seal: Seal, cost: Cost = COST, hash: Hash = scryptHash) {
    this.#seal = seal;
    this.#cost = cost;
    this.#hashNow = hash;
  }

  /** What is stored of a person's password. */
  async close(personId: string, password: string): Promise<Buffer> {
    const salt = randomBytes(SALT_BYTES);
    const hash = await this.#hash(password, salt, this.#cost);
    const kept: Kept = { ...this.#cost, salt: salt.toString("base64"), hash: hash.toString("base64") };
    return this.#seal.close(Buffer.from(JSON.stringify(kept)), placeOf(personId));
  }

  /** Whether it is the person's password; takes as long for nobody as for somebody. */
  async matches(person: Pick<Person, "id" | "sealedPassword"> | null, password: string): Promise<boolean> {
    if (!person?.sealedPassword) {
      await this.#hash(password, Buffer.alloc(SALT_BYTES), this.#cost);
      return false;
    }
    const opened = this.#seal.open(person.sealedPassword, placeOf(person.id));
    const { salt, hash, ...cost } = JSON.parse(opened.toString()) as Kept;
    const given = await this.#hash(password, Buffer.from(salt, "base64"), cost);
    return timingSafeEqual(given, Buffer.from(hash, "base64"));
  }

  /** One at a time: file access shares the threads on which it runs, and each takes 16 MiB. */
  async #hash(password: string, salt: Buffer, cost: Cost): Promise<Buffer> {
    if (this.#waiting >= MAX_WAITING) throw tooMany(BUSY_WAIT_MS);
    this.#waiting += 1;
    // The same letters in another composition are the same password.
    const hashing = this.#last.then(() => this.#hashNow(password.normalize("NFKC"), salt, cost));
    this.#last = hashing.catch(() => {});
    try {
      return await hashing;
    } finally {
      this.#waiting -= 1;
    }
  }
}

/** By scrypt. */
export async function scryptHash(password: string, salt: Buffer, cost: Cost): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  scrypt(password, salt, HASH_BYTES, cost, (error, hash) => (error ? reject(error) : resolve(hash)));
  return await promise;
}

function placeOf(personId: string): string {
  return `people/${personId}/password`;
}
