import type { Clock } from "../kit/clock.ts";
import type { Seal } from "../kit/seal.ts";
import type { Person } from "../store/people.ts";

const SETUP_PLACE = "link/setup";
const PASSWORD_PLACE = "link/password";
const PASSWORD_MS = 7 * 86_400_000;

/** A link that lets its holder set the password of one person, once. */
export type PasswordLink = Pick<Person, "id" | "updatedAt">;

/**
 * The secret parts of links that are used once. They are sealed and stored nowhere; what they are good for ends
 * by itself: setting up when somebody exists, setting a password when it has changed.
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

  /** Good for seven days, and until the password is set. */
  password({ id, updatedAt }: PasswordLink): string {
    return this.#close({ id, updatedAt, expiresAt: this.#clock.now() + PASSWORD_MS }, PASSWORD_PLACE);
  }

  /** Null for what is no such link, or has expired. */
  readPassword(text: string): PasswordLink | null {
    const opened = this.#open(text, PASSWORD_PLACE);
    if (opened === null) return null;
    const { id, updatedAt, expiresAt } = opened as PasswordLink & { readonly expiresAt: number };
    return this.#clock.now() < expiresAt ? { id, updatedAt } : null;
  }

  #close(content: object, place: string): string {
    return this.#seal.close(Buffer.from(JSON.stringify(content)), place).toString("base64url");
  }

  #open(text: string, place: string): unknown {
    try {
      return JSON.parse(this.#seal.open(Buffer.from(text, "base64url"), place).toString());
    } catch {
      return null; // Not sealed here, or for another purpose.
    }
  }
}
