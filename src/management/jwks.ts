import { z } from "zod";
import type { KeyRing } from "../identity/key-ring.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";

const KEY = z.object({
  kty: z.string(),
  crv: z.string(),
  x: z.string(),
  kid: z.string(),
  use: z.literal("sig"),
  alg: z.literal("EdDSA"),
});

export type JwksParts = { readonly keys: KeyRing };

/** The public keys by which anybody can check a token's signature; whether it was revoked they do not say. */
export function jwksOperations({ keys }: JwksParts): AnyOperation[] {
  return [
    operation({
      method: "GET",
      path: "/.well-known/jwks.json",
      id: "getPublicKeys",
      tag: "Sign-in",
      summary: "Get the public keys that verify tokens, as a JWK set",
      access: null,
      response: z.object({ keys: z.array(KEY) }),
      handle: ({ reply }) => {
        reply.header("cache-control", "public, max-age=300");
        return { keys: keys.publicKeys() };
      },
    }),
  ];
}
