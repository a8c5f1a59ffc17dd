import type { Clock } from "../kit/clock.ts";
import type { Seal } from "../kit/seal.ts";
import type { Changes } from "../nodes/changes.ts";
import type { Store } from "../store/store.ts";
import { Audit } from "./audit.ts";
import { Devices } from "./devices.ts";
import { Invitations } from "./invitations.ts";
import type { KeyRing } from "./key-ring.ts";
import { Links } from "./links.ts";
import type { Post } from "./mailer.ts";
import { Operators, type Owner, type OwnerParts, renewOwner } from "./owner.ts";
import { type Hash, Passwords } from "./passwords.ts";
import { type Candidate, type Meant, People } from "./people.ts";
import { Sessions } from "./sessions.ts";
import { MailQuota, SignInThrottle } from "./throttle.ts";
import type { Tokens } from "./tokens.ts";

type IdentitySources = {
  readonly store: Store;
  readonly seal: Seal;
  readonly tokens: Tokens;
  readonly post: Post | null;
  /** For tests. */
  readonly hashPassword?: Hash | undefined;
};

/** Everything about people, sessions and operators; the tokens are in `openInstallation`. */
export function identityParts({ store, seal, tokens, post, hashPassword }: IdentitySources, clock: Clock) {
  const sessions = new Sessions({ store, tokens, clock });
  const parts = {
    store,
    tokens,
    sessions,
    passwords: new Passwords(seal, clock, hashPassword),
    links: new Links(seal, clock),
    throttle: new SignInThrottle(clock),
    quota: new MailQuota(clock),
    post,
    clock,
  };
  const people = new People(parts);
  return {
    audit: new Audit(store, clock),
    sessions,
    people,
    invitations: new Invitations({ ...parts, people }),
    operators: new Operators(store),
    devices: new Devices({ store, sessions, clock }),
    sendsMail: post !== null,
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

/**
 * A link that sets a password or, if there is no account yet (`isFirst`), creates the first one. `url` is null if no
 * person, or several, have the address; `people` lists them.
 */
export type PasswordLink = {
  readonly url: string | null;
  readonly isFirst: boolean;
  readonly people: readonly Candidate[];
};

/** The requests of an operator on this machine, whether or not the service runs. */
export type OperatorRequests = ReturnType<typeof operatorRequests>;

type OperatorParts = Pick<ReturnType<typeof identityParts>, "audit" | "people"> &
  OwnerParts & {
    readonly keys: KeyRing;
    readonly owner: Owner;
    readonly apiUrl: string;
    readonly baseUrl: string;
  };

/** Answers the requests, and records their changes in the default project's audit log. */
export function operatorRequests(parts: OperatorParts) {
  const { audit, keys, apiUrl, baseUrl } = parts;
  let { owner } = parts;
  const record = async (action: string, target: string): Promise<void> => {
    const change = { action, target, before: null, after: null };
    await audit.record({ ...change, projectId: owner.projectId, principal: null, ip: "", requestId: "" });
  };
  return {
    bootstrap: () => ({ ...owner, apiUrl, baseUrl }),
    passwordLink: async (meant: Meant): Promise<PasswordLink> => {
      const setup = await parts.people.setupLink(baseUrl);
      if (setup !== null) return { url: setup, isFirst: true, people: [] };
      const { link, people } = await parts.people.passwordLink(meant);
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
      // The newest signs, all verify.
      return { keys: keys.publicKeys().map(({ kid }) => kid) };
    },
  };
}
