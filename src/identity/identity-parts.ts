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
import { Operators } from "./owner.ts";
import { type Hash, Passwords } from "./passwords.ts";
import { ensureSetup, makePasswordLink, type Meant, People } from "./people.ts";
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
