import type { KeyObject } from "node:crypto";
import type { Clock } from "../kit/clock.ts";
import type { Seal } from "../kit/seal.ts";
import type { Store } from "../store/store.ts";
import { loadTokenKeys, newKey } from "./token-keys.ts";
import type { TokenKey } from "./token-keys.ts";

/** Where no word of it comes, a key that another process retired stops within this time, while tokens are verified. */
const READ_AGAIN_MS = 60_000;
/** Unknown key ids make the keys be read again at most this often, however many come. */
const MIN_GAP_MS = 1_000;
const KEY_ID = /^[\w-]{1,64}$/;

/** One public key as `/.well-known/jwks.json` shows it. */
export type PublicKey = {
  readonly kty: string;
  readonly crv: string;
  readonly x: string;
  readonly kid: string;
  readonly use: "sig";
  readonly alg: "EdDSA";
};

/** The keys that sign and verify tokens, the same for every process on the database: the newest one signs. */
export class KeyRing {
  readonly #store: Store;
  readonly #seal: Seal;
  readonly #clock: Clock;
  #keys: readonly TokenKey[] = [];
  #readAt = 0;
  /** Reads that have begun, and the latest begun one whose answer counts. */
  #begun = 0;
  #counting = 0;
  #reading: Promise<void> | null = null;

  private constructor(store: Store, seal: Seal, clock: Clock) {
    this.#store = store;
    this.#seal = seal;
    this.#clock = clock;
  }

  /** Reads the keys; makes one at the first start. */
  static async open(store: Store, seal: Seal, clock: Clock): Promise<KeyRing> {
    const ring = new KeyRing(store, seal, clock);
    await ring.#read();
    return ring;
  }

  get signingKey(): TokenKey {
    const [key] = this.#keys;
    if (!key) throw new Error("there is no key to sign with");
    return key;
  }

  /** The public key of that id; null when there is none. A key made elsewhere is found too. */
  async publicKey(id: string | undefined): Promise<KeyObject | null> {
    if (id === undefined || !KEY_ID.test(id)) return null;
    const ageMs = this.#clock.monotonic() - this.#readAt;
    const known = this.#find(id);
    if (!known) await this.#readOnce(MIN_GAP_MS - ageMs);
    else if (ageMs >= READ_AGAIN_MS) void this.#readOnce().catch(() => {}); // The next one tries again.
    return known ?? this.#find(id);
  }

  publicKeys(): PublicKey[] {
    return this.#keys.map(({ id, publicKey }) => {
      const { kty = "", crv = "", x = "" } = publicKey.export({ format: "jwk" });
      return { kty, crv, x, kid: id, use: "sig", alg: "EdDSA" };
    });
  }

  /** Makes a key that signs from now on. The one before goes on verifying; older ones are void. */
  async rotate(): Promise<void> {
    await this.#store.signingKeys.rotate(newKey(this.#seal, this.#clock.now()));
    await this.#read();
  }

  /** Reads the keys again: another process has made one. */
  async refresh(): Promise<void> {
    await this.#read();
  }

  #find(id: string): KeyObject | null {
    return this.#keys.find((key) => key.id === id)?.publicKey ?? null;
  }

  /** Concurrent callers share one read: it finds a new key, and many unknown key ids cost only one read. */
  #readOnce(inMs = 0): Promise<void> {
    this.#reading ??= this.#readIn(inMs).finally(() => (this.#reading = null));
    return this.#reading;
  }

  async #readIn(ms: number): Promise<void> {
    if (ms > 0) await new Promise<void>((resolve) => void this.#clock.after(ms, resolve));
    await this.#read();
  }

  async #read(): Promise<void> {
    this.#readAt = this.#clock.monotonic();
    const turn = ++this.#begun;
    const keys = await loadTokenKeys(this.#store, this.#seal, this.#clock.now());
    // An answer that comes late may be of before a change that another has seen.
    if (turn < this.#counting) return;
    this.#counting = turn;
    this.#keys = keys;
  }
}
