import type { Clock } from "../kit/clock.ts";
import { addressKey } from "../kit/ip-addresses.ts";
import { AppError } from "../model/errors.ts";
import type { Store } from "../store/store.ts";
import type { Links } from "./links.ts";
import { type Mailer, passwordMail, proofMail } from "./mailer.ts";
import type { Passwords } from "./passwords.ts";
import { badLink, type Credentials, normal, type People, takenPair } from "./people.ts";
import type { PersonPrincipal } from "./principal.ts";
import type { MailQuota, SignInThrottle } from "./throttle.ts";
import type { Tokens } from "./tokens.ts";

/** How mail is sent, and the base URL of its links, which is never a request's Host. */
export type Post = { readonly mailer: Pick<Mailer, "order">; readonly baseUrl: () => string };

type AddressParts = {
  readonly store: Store;
  readonly tokens: Tokens;
  readonly people: People;
  readonly passwords: Passwords;
  readonly links: Links;
  readonly throttle: SignInThrottle;
  readonly quota: MailQuota;
  /** Null if the installation sends no mail. */
  readonly post: Post | null;
  readonly clock: Clock;
};

/** People's addresses: several people may have the same one until one of them verifies it by mail. */
export class Addresses {
  readonly #parts: AddressParts;

  constructor(parts: AddressParts) {
    this.#parts = parts;
  }

  get sendsMail(): boolean {
    return this.#parts.post !== null;
  }

  /** Changes the person's address, even if others have it; throws `unauthorized` for a wrong password. */
  async change(principal: PersonPrincipal, { email, password, ip }: Credentials): Promise<void> {
    const { store, tokens, people, passwords, throttle, clock } = this.#parts;
    const address = normal(email);
    // Counted before the hash, which is expensive.
    throttle.choose(address, ip);
    const { id, updatedAt } = await people.confirm(principal, password, ip);
    const signInKey = await passwords.key(address, password, ip);
    const change = { id, email: address, signInKey, now: clock.now(), updatedAt };
    const result = await store.people.setEmail(change);
    if (result === "taken") throw takenPair();
    if (result === "stale") throw changedMeanwhile();
    tokens.forgetSubject(id);
  }

  /** Sends a link to the person's address; throws `not_found` if the installation sends no mail. */
  async askForProof({ personId }: PersonPrincipal, ip: string): Promise<void> {
    const { store, links, quota } = this.#parts;
    const { mailer, baseUrl } = this.#post();
    const person = await store.people.find(personId);
    if (!person || person.provenAt !== null) return;
    const { id, email } = person;
    quota.spend("proof", { to: email, by: [id, addressKey(ip)] });
    mailer.order({
      make: async () => proofMail(email, `${baseUrl()}/prove#${links.proof({ id, email })}`),
    });
  }

  /**
   * Makes the address the person's own. Only the person who asked for the link can use it, so that other recipients cannot
   * verify it by opening it. Throws `forbidden`.
   */
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
    const { mailer, baseUrl } = this.#post();
    const address = normal(email);
    quota.spend("password", { to: address, by: [addressKey(ip)] });
    mailer.order({
      make: async () => {
        const person = await store.people.findProven(address);
        return person && passwordMail(address, `${baseUrl()}/password#${links.password(person, "mail")}`);
      },
    });
  }

  #post(): Post {
    if (this.#parts.post) return this.#parts.post;
    const message = "This installation does not send mail. Ask its operator for a link.";
    throw new AppError("not_found", { message });
  }
}

function changedMeanwhile(): AppError {
  return new AppError("bad_request", { message: "The account was changed in the meantime; try again." });
}
