import type { Clock } from "../kit/clock.ts";
import type { Seal } from "../kit/seal.ts";
import type { Store } from "../store/store.ts";
import { Audit } from "./audit.ts";
import { Devices } from "./devices.ts";
import { Links } from "./links.ts";
import { Passwords } from "./passwords.ts";
import { People, ensureSetup } from "./people.ts";
import { Sessions } from "./sessions.ts";
import { SignInThrottle } from "./throttle.ts";
import type { Tokens } from "./tokens.ts";

/** Who may ask for what, beyond tokens. */
export function identityParts(
  { store, seal, tokens }: { readonly store: Store; readonly seal: Seal; readonly tokens: Tokens },
  clock: Clock,
) {
  const sessions = new Sessions({ store, tokens, clock });
  const links = new Links(seal, clock);
  const people = new People({
    store,
    tokens,
    sessions,
    passwords: new Passwords(seal),
    links,
    throttle: new SignInThrottle(clock),
    clock,
  });
  return {
    audit: new Audit(store, clock),
    sessions,
    people,
    devices: new Devices(store, sessions, clock),
    /** A link for the first person; null once somebody can sign in. */
    setupLink: (baseUrl: string) => ensureSetup(store, links, baseUrl),
  };
}
