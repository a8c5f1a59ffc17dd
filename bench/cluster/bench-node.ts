import { randomUUID } from "node:crypto";
import { systemClock } from "../../src/kit/clock.ts";
import { Seal } from "../../src/kit/seal.ts";
import { type Identity, openAuthority } from "../../src/nodes/authority.ts";
import type { Others } from "../../src/nodes/forward/app-locator.ts";
import { type Peer, Peers } from "../../src/nodes/peers.ts";

type Secret = { readonly masterKey: string; readonly authority: string };

/** What the processes of one installation share: an authority, and the key that opens it. */
export async function newSecret(masterKey: Buffer): Promise<string> {
  let authority = "";
  const meta = {
    get: async () => null,
    setIfAbsent: async ({ value }: { readonly value: string }) => (authority = value),
  };
  await openAuthority({ store: { meta }, seal: new Seal(masterKey), clock: systemClock });
  return JSON.stringify({ masterKey: masterKey.toString("base64"), authority } satisfies Secret);
}

/** A node of that installation. */
export async function benchIdentity(secret: string): Promise<Identity> {
  const { masterKey, authority } = JSON.parse(secret) as Secret;
  const meta = { get: async () => authority, setIfAbsent: async () => authority };
  const seal = new Seal(Buffer.from(masterKey, "base64"));
  return (await openAuthority({ store: { meta }, seal, clock: systemClock })).issue(randomUUID());
}

/** Where every app is: at that peer; with null nowhere but here. */
export function beside(identity: Identity, owner: Peer | null): Others {
  const place = owner && ({ kind: "there", peer: owner } as const);
  return {
    peers: new Peers(identity, systemClock),
    locator: {
      find: async () => place,
      settle: async () => place,
      retry: async () => null,
      ofRun: async () => null,
      holderOf: async () => null,
      tellDropped: () => {},
    },
  };
}
