import { createPrivateKey, createPublicKey, generateKeyPairSync, randomUUID } from "node:crypto";
import type { JsonWebKey, KeyObject } from "node:crypto";
import type { Clock } from "../kit/clock.ts";
import type { Seal } from "../kit/seal.ts";
import type { SigningKey } from "../store/accounts/sealed-secrets.ts";
import type { Store } from "../store/store.ts";

/** A key pair that signs tokens (Ed25519). */
export type TokenKey = { readonly id: string; readonly privateKey: KeyObject; readonly publicKey: KeyObject };

/** The keys of this installation, the newest first; makes one at the first start. */
export async function loadTokenKeys(store: Store, seal: Seal, now: number): Promise<readonly TokenKey[]> {
  const stored = await store.signingKeys.listActive();
  if (stored.length > 0) return stored.map((key) => openKey(key, seal));
  const key = newKey(seal, now);
  await store.signingKeys.insert(key);
  return [openKey(key, seal)];
}

/** A new key, its private half sealed. */
export function newKey(seal: Seal, now: number): Omit<SigningKey, "retiredAt"> {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const id = randomUUID();
  const secret = privateKey.export({ format: "der", type: "pkcs8" });
  return {
    id,
    sealedPrivate: seal.close(secret, contextOf(id)),
    publicJwk: JSON.stringify(publicKey.export({ format: "jwk" })),
    createdAt: now,
  };
}

function openKey({ id, sealedPrivate, publicJwk }: Omit<SigningKey, "retiredAt">, seal: Seal): TokenKey {
  const key = seal.open(sealedPrivate, contextOf(id));
  return {
    id,
    privateKey: createPrivateKey({ key, format: "der", type: "pkcs8" }),
    publicKey: createPublicKey({ key: JSON.parse(publicJwk) as JsonWebKey, format: "jwk" }),
  };
}

function contextOf(id: string): string {
  return `signing_keys/${id}/private`;
}

/** If the notification is lost, a key that another process retired stops verifying after this time. */
const READ_AGAIN_MS = 60_000;
/** Unknown key ids cause a new read of the keys at most this often. */
const MIN_GAP_MS = 1_000;
const KEY_ID = /^[\w-]{1,64}$/;

/** The keys that sign and verify tokens, the same for every process on the database: the newest one signs. */
export class KeyRing {
  readonly #store: Store;
  readonly #seal: Seal;
  readonly #clock: Clock;
  #keys: readonly TokenKey[] = [];
  #readAt = 0;
  /** The number of reads that have begun, and that of the newest one that has finished. */
  #begun = 0;
  #counting = 0;
  #reading: Promise<void> | null = null;

  private constructor(store: Store, seal: Seal, clock: Clock) {
    this.#store = store;
    this.#seal = seal;
    this.#clock = clock;
  }

  static async open(store: Store, seal: Seal, clock: Clock): Promise<KeyRing> {
    const ring = new KeyRing(store, seal, clock);
    await ring.refresh();
    return ring;
  }

  get signingKey(): TokenKey {
    const [key] = this.#keys;
    if (!key) throw new Error("there is no key to sign with");
    return key;
  }

  /** Also a key that another process made; null if there is none with that id. */
  async publicKey(id: string | undefined): Promise<KeyObject | null> {
    if (id === undefined || !KEY_ID.test(id)) return null;
    const ageMs = this.#clock.monotonic() - this.#readAt;
    const known = this.#find(id);
    if (!known) await this.#readOnce(MIN_GAP_MS - ageMs);
    else if (ageMs >= READ_AGAIN_MS) void this.#readOnce().catch(() => {}); // The next call retries.
    return known ?? this.#find(id);
  }

  /** For `/.well-known/jwks.json`. */
  publicKeys() {
    return this.#keys.map(({ id, publicKey }) => {
      const { kty = "", crv = "", x = "" } = publicKey.export({ format: "jwk" });
      return { kty, crv, x, kid: id, use: "sig", alg: "EdDSA" } as const;
    });
  }

  /** Makes a new signing key. The previous one still verifies; older ones are void. */
  async rotate(): Promise<void> {
    await this.#store.signingKeys.rotate(newKey(this.#seal, this.#clock.now()));
    await this.refresh();
  }

  #find(id: string): KeyObject | null {
    return this.#keys.find((key) => key.id === id)?.publicKey ?? null;
  }

  #readOnce(inMs = 0): Promise<void> {
    const read = async (): Promise<void> => {
      if (inMs > 0) await new Promise<void>((resolve) => void this.#clock.after(inMs, resolve));
      await this.refresh();
    };
    this.#reading ??= read().finally(() => (this.#reading = null));
    return this.#reading;
  }

  /** Reads the keys again; another process may have changed them. */
  async refresh(): Promise<void> {
    this.#readAt = this.#clock.monotonic();
    const turn = ++this.#begun;
    const keys = await loadTokenKeys(this.#store, this.#seal, this.#clock.now());
    // A read that finishes late may be older than the newest one.
    if (turn < this.#counting) return;
    this.#counting = turn;
    this.#keys = keys;
  }
}
