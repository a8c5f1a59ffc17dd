import type { Clock } from "../kit/clock.ts";
import type { Seal } from "../kit/seal.ts";
import type { Person } from "../store/accounts/people.ts";

const SETUP_PLACE = "link/setup";
const PASSWORD_PLACE = "link/password";
const PROOF_PLACE = "link/proof";
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

type PasswordLink = Pick<Person, "id" | "updatedAt">;
type ProofLink = Pick<Person, "id" | "email">;

/**
 * The secret parts of links that work once. They are sealed, not stored, and become invalid by themselves: a set-up link
 * with the first person, a password link with the new password, a proof when the address is verified.
 */
export class Links {
  readonly #seal: Seal;
  readonly #clock: Clock;

  constructor(seal: Seal, clock: Clock) {
    this.#seal = seal;
    this.#clock = clock;
  }

  setup(): string {
    return this.#close({}, SETUP_PLACE);
  }

  isSetup(text: string): boolean {
    return this.#open(text, SETUP_PLACE) !== null;
  }

  /** Valid until the password is set; for seven days from the operator, for an hour by mail. */
  password({ id, updatedAt }: PasswordLink, by: "operator" | "mail"): string {
    const expiresAt = this.#clock.now() + (by === "mail" ? HOUR_MS : 7 * DAY_MS);
    return this.#close({ id, updatedAt, expiresAt }, PASSWORD_PLACE);
  }

  /** Null if it is not such a link or has expired. */
  readPassword(text: string): PasswordLink | null {
    const opened = this.#openInTime(text, PASSWORD_PLACE) as PasswordLink | null;
    return opened && { id: opened.id, updatedAt: opened.updatedAt };
  }

  /** Valid for a day, for that person and address. */
  proof({ id, email }: ProofLink): string {
    return this.#close({ id, email, expiresAt: this.#clock.now() + DAY_MS }, PROOF_PLACE);
  }

  /** Null if it is not such a link or has expired. */
  readProof(text: string): ProofLink | null {
    const opened = this.#openInTime(text, PROOF_PLACE) as ProofLink | null;
    return opened && { id: opened.id, email: opened.email };
  }

  #openInTime(text: string, context: string): unknown {
    const opened = this.#open(text, context) as { readonly expiresAt: number } | null;
    return opened && this.#clock.now() < opened.expiresAt ? opened : null;
  }

  #close(content: object, context: string): string {
    return this.#seal.close(Buffer.from(JSON.stringify(content)), context).toString("base64url");
  }

  #open(text: string, context: string): unknown {
    try {
      return JSON.parse(this.#seal.open(Buffer.from(text, "base64url"), context).toString());
    } catch {
      return null; // Not one of our links, or one for another purpose.
    }
  }
}
