import type { Clock } from "../kit/clock.ts";
import type { Seal } from "../kit/seal.ts";
import type { Changes } from "../nodes/changes.ts";
import type { Store } from "../store/store.ts";
import { Addresses, type Post } from "./addresses.ts";
import { Audit } from "./audit.ts";
import { Devices } from "./devices.ts";
import { Invitations } from "./invitations.ts";
import type { KeyRing } from "./key-ring.ts";
import { Links } from "./links.ts";
import { Operators, type Owner, type OwnerParts, renewOwner } from "./owner.ts";
import { type Hash, Passwords } from "./passwords.ts";
import { type Candidate, ensureSetup, makePasswordLink, type Meant, People } from "./people.ts";
import { Sessions } from "./sessions.ts";
import { MailQuota, SignInThrottle } from "./throttle.ts";
import type { Tokens } from "./tokens.ts";

type IdentitySources = {
  readonly store: Store;
  readonly seal: Seal;
  readonly tokens: Tokens;
  /** Null if the installation sends no mail. */
  readonly post: Post | null;
  /** A cheaper one, for tests. */
  readonly hashPassword?: Hash | undefined;
};

/** Everything about people, sessions and operators; the tokens are in `openInstallation`. */
export function identityParts({ store, seal, tokens, post, hashPassword }: IdentitySources, clock: Clock) {
  const sessions = new Sessions({ store, tokens, clock });
  const links = new Links(seal, clock);
  const passwords = new Passwords({ seal, clock, hash: hashPassword });
  const throttle = new SignInThrottle(clock);
  const quota = new MailQuota(clock);
  const people = new People({ store, tokens, sessions, passwords, links, throttle, clock });
  return {
    audit: new Audit(store, clock),
    sessions,
    people,
    addresses: new Addresses({ store, tokens, people, passwords, links, throttle, quota, post, clock }),
    invitations: new Invitations({ store, tokens, sessions, people, throttle, quota, post, clock }),
    makePasswordLink: (meant: Meant) => makePasswordLink(store, links, meant),
    operators: new Operators(store),
    devices: new Devices({ store, sessions, clock }),
    /** A link for the first person; null once somebody can sign in. */
    setupLink: (baseUrl: string) => ensureSetup(store, links, baseUrl),
  };
}

/** Applies changes that other nodes make to accounts, people and keys, within a second. */
export function followIdentity(
  changes: Pick<Changes, "on" | "onReset">,
  { tokens, keys }: { readonly tokens: Tokens; readonly keys: KeyRing },
): void {
  const forget = (subjects: readonly string[]): void => {
    for (const subject of subjects) tokens.forgetSubject(subject);
  };
  changes.on("account", forget);
  changes.on("person", forget);
  const readAgain = async (): Promise<void> => {
    await keys.refresh();
    // The tokens of a retired key are invalid.
    tokens.reconsiderAll();
  };
  changes.on("keys", readAgain);
  changes.onReset(async () => {
    tokens.reconsiderAll();
    await readAgain();
  });
}

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
