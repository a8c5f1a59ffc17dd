import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createPrivateKey, createPublicKey } from "node:crypto";
import type { JsonWebKey, KeyObject } from "node:crypto";
import type { Seal } from "../kit/seal.ts";
import type { Store } from "../store/store.ts";

/** A key pair that signs tokens (Ed25519). */
export type TokenKey = { readonly id: string; readonly privateKey: KeyObject; readonly publicKey: KeyObject };

/** The keys of this installation, the signing one first; makes one at the first start. */
export async function loadTokenKeys(store: Store, seal: Seal, now: number): Promise<readonly TokenKey[]> {
  const stored = await store.signingKeys.listActive();
  if (stored.length === 0) return [await makeTokenKey(store, seal, now)];
  return stored.map(({ id, sealedPrivate, publicJwk }) => ({
    id,
    privateKey: createPrivateKey({
      key: seal.open(sealedPrivate, placeOf(id)),
      format: "der",
      type: "pkcs8",
    }),
    publicKey: createPublicKey({ key: JSON.parse(publicJwk) as JsonWebKey, format: "jwk" }),
  }));
}

async function makeTokenKey(store: Store, seal: Seal, now: number): Promise<TokenKey> {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const id = randomUUID();
  const secret = privateKey.export({ format: "der", type: "pkcs8" });
  await store.signingKeys.insert({
    id,
    sealedPrivate: seal.close(secret, placeOf(id)),
    publicJwk: JSON.stringify(publicKey.export({ format: "jwk" })),
    createdAt: now,
  });
  return { id, privateKey, publicKey };
}

function placeOf(id: string): string {
  return `signing_keys/${id}/private`;
}
