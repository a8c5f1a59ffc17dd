import { randomUUID, timingSafeEqual } from "node:crypto";
import type { Clock } from "../kit/clock.ts";
import { AppError } from "../model/errors.ts";
import type { Membership } from "../store/accounts/memberships.ts";
import type { Person } from "../store/accounts/people.ts";
import type { Store } from "../store/store.ts";
import type { Links } from "./links.ts";
import type { Passwords } from "./passwords.ts";
import { CHALLENGE, type PersonPrincipal } from "./principal.ts";
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

/** How many people with the same address are listed. */
const MAX_LISTED = 20;

/** An address and a password, and the network address that sent them. */
export type Credentials = { readonly email: string; readonly password: string; readonly ip: string };

/** Signs people in, and manages their accounts and roles. */
export class People {
  readonly #parts: PeopleParts;

  constructor(parts: PeopleParts) {
    this.#parts = parts;
  }

  /** Makes the first person, owner of every project; throws `forbidden` for a bad link, or if a person exists. */
  async setUp(link: string, credentials: Credentials): Promise<SignedIn> {
    const { store, sessions, links } = this.#parts;
    // Checked before the hash, which is expensive.
    if (!links.isSetup(link) || (await store.people.hasAny())) throw badLink();
    const person = await this.newPerson(credentials);
    if (!(await store.people.insertFirst(person))) throw badLink();
    return await sessions.open(person.id, "browser");
  }

  /** Throws `unauthorized`: same message and same time for an unknown address and a wrong password. */
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
    // By id, so that others with the same address cannot block the person.
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
    // Counted before the hash, which is expensive.
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

  /** A new person to store; the address is not verified. */
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

  /** Makes a project with the person as its owner; false if the id is taken. Throws `bad_request` for too many. */
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

/** The set-up link, which makes the first person; null if a person exists. */
export async function ensureSetup(store: Store, links: Links, baseUrl: string): Promise<string | null> {
  return (await store.people.hasAny()) ? null : `${baseUrl}/setup#${links.setup()}`;
}

/** A person who may be meant by an address. */
export type Candidate = Pick<Person, "id" | "email" | "provenAt" | "createdAt"> & {
  readonly projectIds: readonly string[];
};

/** The person an operator means: by address, or by id if several have that address. */
export type Meant = { readonly email: string } | { readonly personId: string };

/** Makes a link for the person; the link is null if there is no such person or several. Returns all of them. */
export async function makePasswordLink(
  { people, memberships }: Store,
  links: Links,
  meant: Meant,
): Promise<{ readonly link: string | null; readonly people: readonly Candidate[] }> {
  const found =
    "email" in meant
      ? await people.listByEmail({ email: normal(meant.email), limit: MAX_LISTED })
      : [await people.find(meant.personId)].filter((person) => person !== null);
  const [only, ...others] = found;
  const candidates = found.map(async ({ id, email, provenAt, createdAt }) => {
    const projects = await memberships.projectsOf(id);
    return { id, email, provenAt, createdAt, projectIds: projects.map((project) => project.id) };
  });
  const link = only && others.length === 0 ? links.password(only, "operator") : null;
  return { link, people: await Promise.all(candidates) };
}

/** An address as it is stored and looked up. */
export function normal(email: string): string {
  return email.trim().toLowerCase();
}

/** The same refusal for all invalid links. */
export function badLink(): AppError {
  return new AppError("forbidden", { message: "The link is invalid, already used, or has expired." });
}

/** Another account has the same address and password. Only a caller who knows both sees this. */
export function takenPair(): AppError {
  const message =
    "An account with this address and password already exists. Sign in, or choose another password.";
  return new AppError("bad_request", { message });
}

function wrongSignIn(): AppError {
  const message = "The e-mail address or the password is wrong.";
  return new AppError("unauthorized", { message, headers: CHALLENGE });
}

function wrongPassword(): AppError {
  return new AppError("unauthorized", { message: "Your password is wrong.", headers: CHALLENGE });
}
