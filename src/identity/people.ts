import { randomUUID, timingSafeEqual } from "node:crypto";
import type { Clock } from "../kit/clock.ts";
import { addressKey } from "../kit/ip-addresses.ts";
import { AppError } from "../model/errors.ts";
import type { Membership, MembershipChange } from "../store/accounts/memberships.ts";
import type { Person } from "../store/accounts/people.ts";
import type { Store } from "../store/store.ts";
import type { Links } from "./links.ts";
import { passwordMail, type Post, proofMail } from "./mailer.ts";
import type { Passwords } from "./passwords.ts";
import { CHALLENGE, type PersonPrincipal } from "./principal.ts";
import type { Sessions, SignedIn } from "./sessions.ts";
import type { MailQuota, SignInThrottle } from "./throttle.ts";
import type { Tokens } from "./tokens.ts";

export type PeopleParts = {
  readonly store: Store;
  readonly tokens: Tokens;
  readonly sessions: Sessions;
  readonly passwords: Passwords;
  readonly links: Links;
  readonly throttle: SignInThrottle;
  readonly quota: MailQuota;
  readonly post: Post | null;
  readonly clock: Clock;
};

/** Each project gets a share of the service's resources, so a person must not own any number of them. */
const MAX_OWNED = 200;
const MAX_LISTED = 20;

/** An address and a password, and the network address that sent them. */
export type Credentials = { readonly email: string; readonly password: string; readonly ip: string };

/** People's accounts, addresses and roles. Several may have the same address until one verifies it by mail. */
export class People {
  readonly #parts: PeopleParts;

  constructor(parts: PeopleParts) {
    this.#parts = parts;
  }

  /** Makes the first person, who owns every project; throws `forbidden` for a bad link, or if a person exists. */
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
    const { store, sessions, links, throttle } = this.#parts;
    const opened = links.readPassword(link);
    const person = opened && (await store.people.find(opened.id));
    if (!person || person.updatedAt !== opened.updatedAt) throw badLink();
    // By id, so that others with the same address cannot block the person.
    throttle.choose(person.id, ip);
    if (!(await this.#setPassword(person, password, ip))) throw badLink();
    await sessions.endOthers(person.id, null);
    return await sessions.open(person.id, "browser");
  }

  /** Ends every other session of the person; throws `unauthorized` when the current password is wrong. */
  async changePassword(
    principal: PersonPrincipal,
    { current, next, ip }: { current: string; next: string; ip: string },
  ): Promise<void> {
    const { sessions, throttle } = this.#parts;
    // Counted before the hash, which is expensive.
    throttle.choose(principal.email, ip);
    const person = await this.#confirm(principal, current, ip);
    if (!(await this.#setPassword(person, next, ip))) throw wrongPassword();
    await sessions.endOthers(person.id, principal.sessionId);
  }

  /** False if the account was changed in the meantime. */
  async #setPassword({ id, email, updatedAt }: Person, password: string, ip: string): Promise<boolean> {
    const { store, passwords, clock } = this.#parts;
    const signInKey = await passwords.key(email, password, ip);
    const change = await store.people.setPassword({ id, signInKey, now: clock.now(), updatedAt });
    if (change === "taken") throw takenPair();
    return change !== "stale";
  }

  /** Changes the person's address, even if others have it; throws `unauthorized` for a wrong password. */
  async changeEmail(principal: PersonPrincipal, { email, password, ip }: Credentials): Promise<void> {
    const { store, tokens, passwords, throttle, clock } = this.#parts;
    const address = normal(email);
    // Counted before the hash, which is expensive.
    throttle.choose(address, ip);
    const { id, updatedAt } = await this.#confirm(principal, password, ip);
    const signInKey = await passwords.key(address, password, ip);
    const change = { id, email: address, signInKey, now: clock.now(), updatedAt };
    const result = await store.people.setEmail(change);
    if (result === "taken") throw takenPair();
    if (result === "stale")
      throw new AppError("bad_request", { message: "The account was changed in the meantime; try again." });
    tokens.forgetSubject(id);
  }

  /** The person who is signed in and knows their password; throws `unauthorized`. */
  async #confirm({ personId }: PersonPrincipal, password: string, ip: string): Promise<Person> {
    const { store, passwords, throttle } = this.#parts;
    const attempt = throttle.enter(personId, ip);
    const person = await store.people.find(personId);
    const key = await passwords.key(person?.email ?? "", password, ip);
    const isTheirs = person?.signInKey?.length === key.length && timingSafeEqual(key, person.signInKey);
    if (!attempt.settle(isTheirs ? personId : null) || !person) throw wrongPassword();
    return person;
  }

  /** Sends a link to the person's address; throws `not_found` if the installation sends no mail. */
  async askForProof({ personId }: PersonPrincipal, ip: string): Promise<void> {
    const { store, links, quota } = this.#parts;
    const { mailer, baseUrl } = this.#post;
    const person = await store.people.find(personId);
    if (!person || person.provenAt !== null) return;
    const { id, email } = person;
    quota.spend("proof", { to: email, by: [id, addressKey(ip)] });
    const url = () => `${baseUrl()}/prove#${links.proof({ id, email })}`;
    mailer.order({ make: async () => proofMail(email, url()) });
  }

  /** Verifies the address. Only the person who asked for the link can use it; throws `forbidden`. */
  async prove({ personId }: PersonPrincipal, link: string): Promise<string> {
    const { store, tokens, links, clock } = this.#parts;
    const opened = links.readProof(link);
    if (opened?.id !== personId) throw badLink();
    if (!(await store.people.prove({ ...opened, now: clock.now() }))) throw badLink();
    tokens.forgetSubject(personId);
    return opened.email;
  }

  /** Mails a password-reset link to the person who has verified the address. The answer does not show whether one has. */
  forgotten(email: string, ip: string): void {
    const { store, links, quota } = this.#parts;
    const { mailer, baseUrl } = this.#post;
    const address = normal(email);
    quota.spend("password", { to: address, by: [addressKey(ip)] });
    mailer.order({
      make: async () => {
        const person = await store.people.findProven(address);
        return person && passwordMail(address, `${baseUrl()}/password#${links.password(person, "mail")}`);
      },
    });
  }

  get #post(): Post {
    if (this.#parts.post) return this.#parts.post;
    const message = "This installation does not send mail. Ask its operator for a link.";
    throw new AppError("not_found", { message });
  }

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

  async setRole(projectId: string, personId: string, role: Membership["role"]): Promise<MembershipChange> {
    const change = await this.#parts.store.memberships.setRole({ projectId, personId, role });
    this.#parts.tokens.forgetSubject(personId);
    return change;
  }

  async removeMember(projectId: string, personId: string): Promise<MembershipChange> {
    const change = await this.#parts.store.memberships.remove({ projectId, personId });
    this.#parts.tokens.forgetSubject(personId);
    return change;
  }

  /** Makes a project with the person as its owner; false if the id is taken. Throws `bad_request` for too many. */
  async createProject(personId: string, given: { id: string; name: string }): Promise<boolean> {
    const { store, tokens, clock } = this.#parts;
    const project = { ...given, createdAt: clock.now() };
    const result = await store.memberships.insertProject({ project, personId, maxOwned: MAX_OWNED });
    if (result === "too_many") {
      const message = `A person can own at most ${MAX_OWNED} projects.`;
      throw new AppError("bad_request", { message });
    }
    tokens.forgetSubject(personId);
    return result === "made";
  }

  /** The set-up link, which makes the first person; null if a person exists. */
  async setupLink(baseUrl: string): Promise<string | null> {
    const { store, links } = this.#parts;
    return (await store.people.hasAny()) ? null : `${baseUrl}/setup#${links.setup()}`;
  }

  /** Makes a link for the person; the link is null if there is no such person or several. Returns all of them. */
  async passwordLink(meant: Meant): Promise<{ link: string | null; people: readonly Candidate[] }> {
    const { store, links } = this.#parts;
    const found =
      "email" in meant
        ? await store.people.listByEmail({ email: normal(meant.email), limit: MAX_LISTED })
        : [await store.people.find(meant.personId)].filter((person) => person !== null);
    const [only, ...others] = found;
    const candidates = found.map(async ({ id, email, provenAt, createdAt }) => {
      const projects = await store.memberships.projectsOf(id);
      return { id, email, provenAt, createdAt, projectIds: projects.map((project) => project.id) };
    });
    const link = only && others.length === 0 ? links.password(only, "operator") : null;
    return { link, people: await Promise.all(candidates) };
  }
}

export type Candidate = Pick<Person, "id" | "email" | "provenAt" | "createdAt"> & {
  readonly projectIds: readonly string[];
};

/** A person by address, or by id if several have that address. */
export type Meant = { readonly email: string } | { readonly personId: string };

/** An address as it is stored and looked up. */
export function normal(email: string): string {
  return email.trim().toLowerCase();
}

export function badLink(): AppError {
  return new AppError("forbidden", { message: "The link is invalid, already used, or has expired." });
}

/** Another account has the same address and password. Only a caller who knows both gets this error. */
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
