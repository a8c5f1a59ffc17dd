import { randomBytes, randomUUID } from "node:crypto";
import { addressKey } from "../kit/ip-addresses.ts";
import { AppError } from "../model/errors.ts";
import type { Invitation, Joined, NewInvitation, Offer } from "../store/accounts/invitations.ts";
import { invitationMail } from "./mailer.ts";
import { badLink, type Credentials, normal, type People, type PeopleParts, takenPair } from "./people.ts";
import { type PersonPrincipal, type Principal, subjectOf } from "./principal.ts";
import type { SignedIn } from "./sessions.ts";
import { hashSecret } from "./token-judge.ts";

const LIFE_MS = 7 * 86_400_000;
const SECRET_BYTES = 32;
/** Per project. */
const MAX_OPEN = 100;

type Wish = Pick<Invitation, "projectId" | "role" | "email"> & {
  readonly isMailed: boolean;
  readonly ip: string;
};

type InvitationParts = PeopleParts & { readonly people: People };

/** The holder of a link can join one project, once. A link belongs to no account and gives no access to one. */
export class Invitations {
  readonly #parts: InvitationParts;

  constructor(parts: InvitationParts) {
    this.#parts = parts;
  }

  /**
   * Returns the invitation with its secret, null if that was mailed. Throws `bad_request` if the project has too many open
   * ones, or the installation sends no mail.
   */
  async make(wish: Wish, inviter: Principal) {
    const { store, clock } = this.#parts;
    const { projectId, role, isMailed, ip } = wish;
    const now = clock.now();
    const secret = randomBytes(SECRET_BYTES).toString("base64url");
    const invitation: NewInvitation = {
      id: `inv-${randomUUID()}`,
      projectId,
      role,
      email: normal(wish.email),
      secretHash: hashSecret(secret),
      inviterId: subjectOf(inviter),
      isMailed: isMailed ? 1 : 0,
      createdAt: now,
      // An account's invitations end with it. A person's token expires within minutes, but not the person's role.
      expiresAt: inviter.projectId === null ? now + LIFE_MS : Math.min(now + LIFE_MS, inviter.expiresAt),
    };
    const send = isMailed ? this.#courier(invitation, secret, ip) : null;
    const result = await store.invitations.insert({ invitation, max: MAX_OPEN });
    if (result === "no_right") throw new AppError("forbidden");
    if (result === "full") {
      const message = `The project has ${MAX_OPEN} open invitations: revoke some first.`;
      throw new AppError("bad_request", { message });
    }
    send?.();
    return { invitation, secret: isMailed ? null : secret };
  }

  async list(projectId: string): Promise<Invitation[]> {
    return await this.#parts.store.invitations.list({ projectId, now: this.#parts.clock.now() });
  }

  /** Null if there is no such open invitation. */
  async revoke(projectId: string, id: string): Promise<Invitation | null> {
    return await this.#parts.store.invitations.revoke({ projectId, id });
  }

  /** The content of a link; throws `forbidden`. */
  async read(link: string): Promise<Offer> {
    const offer = await this.#parts.store.invitations.find(this.#secretOf(link));
    if (!offer) throw badLink();
    return offer;
  }

  /** Joins the project with the account that is signed in; throws `forbidden`. */
  async join(link: string, { personId }: PersonPrincipal): Promise<Joined> {
    const { store, tokens } = this.#parts;
    const joined = await store.invitations.accept({ ...this.#secretOf(link), personId });
    if (!joined) throw badLink();
    tokens.forgetSubject(personId);
    return joined;
  }

  /** Joins the project with a new account, even if others have that address, and signs in; throws `forbidden`. */
  async signUp(
    link: string,
    { email, password, ip }: Credentials,
  ): Promise<{ readonly joined: Joined; readonly signedIn: SignedIn }> {
    const { store, sessions, people, throttle } = this.#parts;
    // Checked before the hash, which is expensive.
    await this.read(link);
    throttle.choose(normal(email), ip);
    const person = await people.newPerson({ email, password, ip });
    const joined = await store.invitations.signUp({ ...this.#secretOf(link), person });
    if (joined === "taken") throw takenPair();
    if (!joined) throw badLink();
    return { joined, signedIn: await sessions.open(person.id, "browser") };
  }

  #secretOf(link: string) {
    return { secretHash: hashSecret(link), now: this.#parts.clock.now() };
  }

  /** Returns a function that mails the invitation; throws if none can be sent. */
  #courier({ id, projectId, email }: NewInvitation, secret: string, ip: string): () => void {
    const { store, quota, post, clock } = this.#parts;
    if (!post) throw new AppError("bad_request", { message: "This installation does not send mail." });
    // By network address too, because anyone can create projects.
    quota.spend("invitation", { to: email, by: [projectId, addressKey(ip)] });
    const make = async () => {
      const project = await store.projects.find(projectId);
      const url = `${post.baseUrl()}/invitation#${secret}`;
      return project && invitationMail(email, { projectName: project.name, url });
    };
    const onSent = async () => await store.invitations.noteMailed({ id, now: clock.now() });
    return () => post.mailer.order({ make, onSent });
  }
}
