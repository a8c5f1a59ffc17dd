import { randomUUID } from "node:crypto";
import type { Clock } from "../kit/clock.ts";
import { AppError } from "../model/errors.ts";
import type { Membership } from "../store/memberships.ts";
import type { Person } from "../store/people.ts";
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

type Credentials = { readonly email: string; readonly password: string; readonly ip: string };

/** A member as they were added; with the secret of a link where they have no password yet. */
export type Added = { readonly person: Person; readonly link: string | null };

/** Lets people in, and into projects. */
export class People {
  readonly #parts: PeopleParts;

  constructor(parts: PeopleParts) {
    this.#parts = parts;
  }

  /** Makes the first person, owner of every project; throws `forbidden` for a bad link, or once somebody exists. */
  async setUp(link: string, { email, password }: Omit<Credentials, "ip">): Promise<SignedIn> {
    const { store, sessions, passwords, links } = this.#parts;
    // Asked first: a hash is too much work to give to whoever asks.
    if (!links.isSetup(link) || (await store.people.hasAny())) throw badLink();
    const person = this.#newPerson(email);
    const sealedPassword = await passwords.close(person.id, password);
    if (!(await store.people.insertFirst({ ...person, sealedPassword }))) throw badLink();
    return await sessions.open(person.id, "browser");
  }

  /** Throws `unauthorized`, in the same words and after the same work, for an unknown address and a wrong password. */
  async signIn({ email, password, ip }: Credentials): Promise<SignedIn> {
    const person = await this.#parts.store.people.findByEmail(normal(email));
    await this.#check(person, { email, password, ip });
    if (!person) throw wrong();
    return await this.#parts.sessions.open(person.id, "browser");
  }

  /** Sets the password that a link was made for, and signs the person in; throws `forbidden`. */
  async acceptLink(link: string, password: string): Promise<SignedIn> {
    const { store, sessions, passwords, links, clock } = this.#parts;
    const opened = links.readPassword(link);
    const person = opened && (await store.people.find(opened.id));
    if (!person || person.updatedAt !== opened.updatedAt) throw badLink();
    const { id, updatedAt } = person;
    const sealedPassword = await passwords.close(id, password);
    const now = clock.now();
    if (!(await store.people.setPassword({ id, sealedPassword, now, updatedAt }))) throw badLink();
    await sessions.endOthers(id, null);
    return await sessions.open(id, "browser");
  }

  /** Ends every other session of the person; throws `unauthorized` when the current password is wrong. */
  async changePassword(
    { personId, sessionId }: PersonPrincipal,
    { current, next, ip }: { readonly current: string; readonly next: string; readonly ip: string },
  ): Promise<void> {
    const { store, sessions, passwords, clock } = this.#parts;
    const person = await store.people.find(personId);
    await this.#check(person, { email: person?.email ?? "", password: current, ip });
    const { updatedAt } = person ?? { updatedAt: 0 };
    const sealedPassword = await passwords.close(personId, next);
    if (!(await store.people.setPassword({ id: personId, sealedPassword, now: clock.now(), updatedAt }))) {
      throw wrong();
    }
    await sessions.endOthers(personId, sessionId);
  }

  /** A link by which somebody who forgot their password sets another; null for an unknown address. */
  async resetLink(email: string): Promise<{ readonly person: Person; readonly link: string } | null> {
    const person = await this.#parts.store.people.findByEmail(normal(email));
    return person && { person, link: this.#parts.links.password(person) };
  }

  /** Makes somebody a member, known or new, or changes what they are; null when no owner would be left. */
  async setMember(projectId: string, email: string, role: Membership["role"]): Promise<Added | null> {
    const { store, tokens, links, clock } = this.#parts;
    const person = await store.people.findOrInsert(this.#newPerson(email));
    const membership = { personId: person.id, projectId, role, createdAt: clock.now() };
    if ((await store.memberships.set(membership)) === "last_owner") return null;
    tokens.forgetPerson(person.id);
    return { person, link: person.sealedPassword ? null : links.password(person) };
  }

  async removeMember(projectId: string, personId: string): Promise<"changed" | "absent" | "last_owner"> {
    const change = await this.#parts.store.memberships.remove({ projectId, personId });
    this.#parts.tokens.forgetPerson(personId);
    return change;
  }

  /** Makes a project and the person its owner; false when the id is taken. */
  async createProject(
    personId: string,
    project: { readonly id: string; readonly name: string },
  ): Promise<boolean> {
    const { store, tokens, clock } = this.#parts;
    const isMade = await store.memberships.insertProject({
      project: { ...project, createdAt: clock.now() },
      personId,
    });
    tokens.forgetPerson(personId);
    return isMade;
  }

  async #check(person: Person | null, { email, password, ip }: Credentials): Promise<void> {
    const attempt = this.#parts.throttle.enter(normal(email), ip);
    if (!(await this.#parts.passwords.matches(person, password))) throw wrong();
    attempt.succeed();
  }

  #newPerson(email: string): Person {
    const now = this.#parts.clock.now();
    return {
      id: `u-${randomUUID()}`,
      email: normal(email),
      sealedPassword: null,
      createdAt: now,
      updatedAt: now,
    };
  }
}

/** The link to the page where the first person is made; null once somebody exists. */
export async function ensureSetup(store: Store, links: Links, baseUrl: string): Promise<string | null> {
  return (await store.people.hasAny()) ? null : `${baseUrl}/setup#${links.setup()}`;
}

function normal(email: string): string {
  return email.trim().toLowerCase();
}

function wrong(): AppError {
  const message = "The e-mail address or the password is wrong.";
  return new AppError("unauthorized", { message, headers: CHALLENGE });
}

function badLink(): AppError {
  return new AppError("forbidden", { message: "The link is not good, was used, or has expired." });
}
