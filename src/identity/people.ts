import { randomUUID, timingSafeEqual } from "node:crypto";
import type { Clock } from "../kit/clock.ts";
import { AppError } from "../model/errors.ts";
import type { Membership } from "../store/accounts/memberships.ts";
import type { Person } from "../store/accounts/people.ts";
import type { Store } from "../store/store.ts";
import { CHALLENGE } from "./bearer.ts";
import type { Links } from "./links.ts";
import type { Passwords } from "./passwords.ts";
import type { PersonPrincipal } from "./principal.ts";
import type { Sessions, SignedIn } from "./sessions.ts";
import type { SignInThrottle } from "./throttle.ts";
import type { Tokens } from "./tokens.ts";

export type PeopleParts = {
  readonly store: Store;
  readonly tokens: Tokens;
  readonly sessions: Sessions;
  readonly passwords: Passwords;
  readonly links: Links;
  readonly throttle: SignInThrottle;
  readonly clock: Clock;
};

/** Each project gets a share of the service's resources; creating more projects must not yield all of them. */
const MAX_OWNED = 200;

/** An address and a password, and where they come from. */
export type Credentials = { readonly email: string; readonly password: string; readonly ip: string };

/** Lets people in, and says what they are in projects. */
export class People {
  readonly #parts: PeopleParts;

  constructor(parts: PeopleParts) {
    this.#parts = parts;
  }

  /** Makes the first person, owner of every project; throws `forbidden` for a bad link, or once somebody exists. */
  async setUp(link: string, credentials: Credentials): Promise<SignedIn> {
    const { store, sessions, links } = this.#parts;
    // Checked first: a hash is too much work to do for anyone who asks.
    if (!links.isSetup(link) || (await store.people.hasAny())) throw badLink();
    const person = await this.newPerson(credentials);
    if (!(await store.people.insertFirst(person))) throw badLink();
    return await sessions.open(person.id, "browser");
  }

  /** Throws `unauthorized`, in the same words and after the same work, for an unknown address and a wrong password. */
  async signIn({ email, password, ip }: Credentials): Promise<SignedIn> {
    const { store, sessions, passwords, throttle } = this.#parts;
    const address = normal(email);
    const attempt = throttle.enter(address, ip);
    const signInKey = await passwords.key(address, password, ip);
    const person = await store.people.findBySignIn({ email: address, signInKey });
    if (!attempt.settle(person?.id ?? null) || !person) throw wrongSignIn();
    return await sessions.open(person.id, "browser");
  }

  /** Sets the password that a link was made for, and signs the person in; throws `forbidden`. */
  async acceptLink(link: string, { password, ip }: Omit<Credentials, "email">): Promise<SignedIn> {
    const { store, sessions, passwords, links, throttle, clock } = this.#parts;
    const opened = links.readPassword(link);
    const person = opened && (await store.people.find(opened.id));
    if (!person || person.updatedAt !== opened.updatedAt) throw badLink();
    const { id, email, updatedAt } = person;
    // Not by the address: others with the same address must not keep somebody from a new password.
    throttle.choose(id, ip);
    const signInKey = await passwords.key(email, password, ip);
    const change = await store.people.setPassword({ id, signInKey, now: clock.now(), updatedAt });
    if (change === "taken") throw takenPair();
    if (change === "stale") throw badLink();
    await sessions.endOthers(id, null);
    return await sessions.open(id, "browser");
  }

  /** Ends every other session of the person; throws `unauthorized` when the current password is wrong. */
  async changePassword(
    principal: PersonPrincipal,
    { current, next, ip }: { readonly current: string; readonly next: string; readonly ip: string },
  ): Promise<void> {
    const { store, sessions, passwords, throttle, clock } = this.#parts;
    // Counted first: a hash is too much work to do for anyone who keeps asking.
    throttle.choose(principal.email, ip);
    const { id, email, updatedAt } = await this.confirm(principal, current, ip);
    const signInKey = await passwords.key(email, next, ip);
    const change = await store.people.setPassword({ id, signInKey, now: clock.now(), updatedAt });
    if (change === "taken") throw takenPair();
    if (change === "stale") throw wrongPassword();
    await sessions.endOthers(id, principal.sessionId);
  }

  /** The person who is signed in and knows their password; throws `unauthorized`. */
  async confirm({ personId }: PersonPrincipal, password: string, ip: string): Promise<Person> {
    const { store, passwords, throttle } = this.#parts;
    const attempt = throttle.enter(personId, ip);
    const person = await store.people.find(personId);
    const key = await passwords.key(person?.email ?? "", password, ip);
    const isTheirs = person?.signInKey?.length === key.length && timingSafeEqual(key, person.signInKey);
    if (!attempt.settle(isTheirs ? personId : null) || !person) throw wrongPassword();
    return person;
  }

  /** A person to be stored, with that address and password; nobody has proven the address. */
  async newPerson({ email, password, ip }: Credentials): Promise<Person> {
    const now = this.#parts.clock.now();
    const address = normal(email);
    return {
      id: `u-${randomUUID()}`,
      email: address,
      provenAt: null,
      signInKey: await this.#parts.passwords.key(address, password, ip),
      createdAt: now,
      updatedAt: now,
    };
  }

  async setRole(projectId: string, personId: string, role: Membership["role"]): Promise<MemberChange> {
    const change = await this.#parts.store.memberships.setRole({ projectId, personId, role });
    this.#parts.tokens.forgetSubject(personId);
    return change;
  }

  async removeMember(projectId: string, personId: string): Promise<MemberChange> {
    const change = await this.#parts.store.memberships.remove({ projectId, personId });
    this.#parts.tokens.forgetSubject(personId);
    return change;
  }

  /** Makes a project and the person its owner; false when the id is taken. Throws `bad_request` for one too many. */
  async createProject(
    personId: string,
    project: { readonly id: string; readonly name: string },
  ): Promise<boolean> {
    const { store, tokens, clock } = this.#parts;
    const result = await store.memberships.insertProject({
      project: { ...project, createdAt: clock.now() },
      personId,
      maxOwned: MAX_OWNED,
    });
    if (result === "too_many") {
      const message = `A person can own at most ${MAX_OWNED} projects.`;
      throw new AppError("bad_request", { message });
    }
    tokens.forgetSubject(personId);
    return result === "made";
  }
}

type MemberChange = "changed" | "absent" | "last_owner";

/** The link to the page where the first person is made; null once somebody exists. */
export async function ensureSetup(store: Store, links: Links, baseUrl: string): Promise<string | null> {
  return (await store.people.hasAny()) ? null : `${baseUrl}/setup#${links.setup()}`;
}

/** An address as it is stored and looked for. */
export function normal(email: string): string {
  return email.trim().toLowerCase();
}

/** The refusal of a link, whatever is wrong with it. */
export function badLink(): AppError {
  return new AppError("forbidden", { message: "The link is invalid, already used, or has expired." });
}

/** The refusal of an address and a password that belong to another account. Only somebody who knows both sees it. */
export function takenPair(): AppError {
  const message =
    "An account with this address and password already exists. Sign in, or choose another password.";
  return new AppError("bad_request", { message });
}

function wrongSignIn(): AppError {
  const message = "The e-mail address or the password is wrong.";
  return new AppError("unauthorized", { message, headers: CHALLENGE });
}

/** For somebody who is signed in: only the password can be wrong. */
function wrongPassword(): AppError {
  return new AppError("unauthorized", { message: "Your password is wrong.", headers: CHALLENGE });
}
