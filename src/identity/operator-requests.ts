import type { identityParts } from "./identity-parts.ts";
import type { KeyRing } from "./key-ring.ts";
import type { Candidate, Meant } from "./people.ts";
import { type Owner, type OwnerParts, renewOwner } from "./owner.ts";

/** The default project, its owner's token, and where the service is reached. */
type Bootstrap = Owner & { readonly apiUrl: string; readonly baseUrl: string };

/**
 * A link that sets a password. `isFirst`: nobody can sign in yet, and the link creates the first account. `url` is null if
 * no person, or several, have the address: `people` lists them.
 */
export type PasswordLink = {
  readonly url: string | null;
  readonly isFirst: boolean;
  readonly people: readonly Candidate[];
};

/** The ids of the keys: the newest signs, all verify. */
type RotatedKeys = { readonly keys: readonly string[] };

/** What an operator on this machine can do, whether or not the service runs. */
export type OperatorRequests = {
  readonly bootstrap: () => Bootstrap;
  readonly passwordLink: (input: Meant) => Promise<PasswordLink>;
  readonly rotateKeys: () => Promise<RotatedKeys>;
};

type OperatorParts = Pick<ReturnType<typeof identityParts>, "audit" | "makePasswordLink" | "setupLink"> &
  OwnerParts & {
    readonly keys: KeyRing;
    readonly owner: Owner;
    readonly apiUrl: string;
    readonly baseUrl: string;
  };

/** Answers the requests, and records their changes in the default project's audit log. */
export function operatorRequests(parts: OperatorParts): OperatorRequests {
  const { audit, makePasswordLink, keys, apiUrl, baseUrl } = parts;
  let { owner } = parts;
  const record = async (action: string, target: string): Promise<void> => {
    const change = { action, target, before: null, after: null };
    await audit.record({ ...change, projectId: owner.projectId, principal: null, ip: "", requestId: "" });
  };
  return {
    bootstrap: () => ({ ...owner, apiUrl, baseUrl }),
    passwordLink: async (meant) => {
      const setup = await parts.setupLink(baseUrl);
      if (setup !== null) return { url: setup, isFirst: true, people: [] };
      const { link, people } = await makePasswordLink(meant);
      const [only] = people;
      if (link === null || !only) return { url: null, isFirst: false, people };
      await record("person.password-link", only.id);
      return { url: `${baseUrl}/password#${link}`, isFirst: false, people };
    },
    rotateKeys: async () => {
      await keys.rotate();
      // The next rotation voids the key that signed the owner's token.
      owner = await renewOwner(parts);
      await record("signing-key.rotate", keys.signingKey.id);
      return { keys: keys.publicKeys().map(({ kid }) => kid) };
    },
  };
}
