import type { identityParts } from "./identity-parts.ts";
import type { KeyRing } from "./key-ring.ts";
import type { Candidate, Meant } from "./password-links.ts";
import { renewOwner } from "./owner.ts";
import type { Owner, OwnerParts } from "./owner.ts";

/** The default project, its owner's token, and where the service is reached. */
type Bootstrap = Owner & { readonly apiUrl: string; readonly baseUrl: string };

/**
 * A link to choose a password by; `isFirst` where nobody can sign in yet, and it makes the first person. Null where
 * nobody, or more than one person, has the address: `people` are those.
 */
export type PasswordLink = {
  readonly url: string | null;
  readonly isFirst: boolean;
  readonly people: readonly Candidate[];
};

/** The ids of the keys: the newest signs, all verify. */
type RotatedKeys = { readonly keys: readonly string[] };

/** What the one at the machine may ask for, with the service up or down. */
export type OperatorRequests = {
  readonly bootstrap: () => Bootstrap;
  readonly passwordLink: (input: Meant) => Promise<PasswordLink>;
  readonly rotateKeys: () => Promise<RotatedKeys>;
};

type OperatorParts = Pick<ReturnType<typeof identityParts>, "audit" | "passwordLinks" | "setupLink"> &
  OwnerParts & {
    readonly keys: KeyRing;
    readonly owner: Owner;
    readonly apiUrl: string;
    readonly baseUrl: string;
  };

/** Answers the requests, and writes down in the default project's audit log what they change. */
export function operatorRequests(parts: OperatorParts): OperatorRequests {
  const { audit, passwordLinks, keys, apiUrl, baseUrl } = parts;
  let { owner } = parts;
  const record = async (action: string, target: string): Promise<void> => {
    const nobody = { principal: null, ip: "", requestId: "" };
    await audit.record({
      ...nobody,
      projectId: owner.projectId,
      action,
      target,
      before: null,
      after: null,
    });
  };
  return {
    bootstrap: () => ({ ...owner, apiUrl, baseUrl }),
    passwordLink: async (meant) => {
      const setup = await parts.setupLink(baseUrl);
      if (setup !== null) return { url: setup, isFirst: true, people: [] };
      const { link, people } = await passwordLinks.make(meant);
      const [only] = people;
      if (link === null || !only) return { url: null, isFirst: false, people };
      await record("person.password-link", only.id);
      return { url: `${baseUrl}/password#${link}`, isFirst: false, people };
    },
    rotateKeys: async () => {
      await keys.rotate();
      // Its own token must not end with the key that signed it, which the next rotation voids.
      owner = await renewOwner(parts);
      await record("signing-key.rotate", keys.signingKey.id);
      return { keys: keys.publicKeys().map(({ kid }) => kid) };
    },
  };
}
