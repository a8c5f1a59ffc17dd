import { createPrivateKey, createPublicKey, generateKeyPairSync, randomUUID } from "node:crypto";
import type { JsonWebKey, KeyObject } from "node:crypto";
import type { Seal } from "../kit/seal.ts";
import type { SigningKey } from "../store/accounts/sealed-secrets.ts";
import type { Store } from "../store/store.ts";

/** A key pair that signs tokens (Ed25519). */
export type TokenKey = { readonly id: string; readonly privateKey: KeyObject; readonly publicKey: KeyObject };

/** The keys of this installation, the signing one first; makes one at the first start. */
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
  return {
    id,
    privateKey: createPrivateKey({
      key: seal.open(sealedPrivate, contextOf(id)),
      format: "der",
      type: "pkcs8",
    }),
    publicKey: createPublicKey({ key: JSON.parse(publicJwk) as JsonWebKey, format: "jwk" }),
  };
}

function contextOf(id: string): string {
  return `signing_keys/${id}/private`;
}
