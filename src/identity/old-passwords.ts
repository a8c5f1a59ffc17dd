import type { Seal } from "../kit/seal.ts";
import type { Person } from "../store/people.ts";
import type { Store } from "../store/store.ts";
import { keptSalt, markHash } from "./passwords.ts";

/** Sealed, as releases before there were invitations kept it. */
type OldPassword = {
  readonly N: number;
  readonly r: number;
  readonly p: number;
  readonly salt: string;
  readonly hash: string;
};

/**
 * Turns the passwords that older releases kept into keys, so that everybody signs in as before. Nobody's password
 * is needed for it: the address keeps the salt that its hash was made with.
 */
export async function takeOverPasswords(store: Store, seal: Seal): Promise<void> {
  for (const { id, email, sealedPassword } of await store.people.listOld()) {
    const old = open(seal, { id, sealedPassword });
    // One that does not open was not sealed here: its person needs a link from the operator.
    if (!old) continue;
    const signInKey = markHash(seal, email, Buffer.from(old.hash, "base64"));
    await store.people.takeOver({ id, email, signInKey, kept: keptSalt(old) });
  }
}

function open(seal: Seal, { id, sealedPassword }: Pick<Person, "id" | "sealedPassword">): OldPassword | null {
  if (!sealedPassword) return null;
  try {
    return JSON.parse(seal.open(sealedPassword, `people/${id}/password`).toString()) as OldPassword;
  } catch {
    return null;
  }
}
