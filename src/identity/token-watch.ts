import type { Clock, Timer } from "../kit/clock.ts";
import { AppError } from "../model/errors.ts";
import type { Principal } from "./principal.ts";
import type { RememberedToken, Tokens } from "./tokens.ts";

/** What is left open by the right of a token. */
type Held = {
  token: RememberedToken;
  /** The principal that the check was last made for; a new judgement makes a new one. */
  checked: Principal;
  readonly check: (principal: Principal) => void;
  readonly onRefused: (error: AppError) => void;
  isAsking: boolean;
};

/**
 * A judgement is at most 2.5 s old when the database is asked again, and a look finds out within this time: together
 * well below the 5 s in which a token stops, with time left to say goodbye.
 */
const LOOK_MS = 500;

/**
 * Watches over what stays open by the right of a token: streams and WebSockets. Whatever ends that right is noticed: the
 * token expires, is revoked or replaced, its key is retired, or its holder may do less.
 */
export class TokenWatch {
  readonly #tokens: Pick<Tokens, "isGood" | "admit" | "hold">;
  readonly #clock: Clock;
  readonly #held = new Set<Held>();
  #timer: Timer | null = null;

  constructor(tokens: Pick<Tokens, "isGood" | "admit" | "hold">, clock: Clock) {
    this.#tokens = tokens;
    this.#clock = clock;
  }

  /**
   * Calls `onRefused` once when the token is not good any more, or `check` throws for what its holder may do now. While
   * the database cannot be asked, what was allowed stays allowed. Gives a function that ends the watch.
   */
  hold(
    token: RememberedToken,
    check: (principal: Principal) => void,
    onRefused: (error: AppError) => void,
  ): () => void {
    const held: Held = { token, checked: token.principal, check, onRefused, isAsking: false };
    this.#held.add(held);
    this.#tokens.hold(token, true);
    this.#timer ??= this.#clock.every(LOOK_MS, () => this.#look());
    return () => this.#release(held);
  }

  #release(held: Held): void {
    if (!this.#held.delete(held)) return;
    this.#tokens.hold(held.token, false);
    if (this.#held.size > 0) return;
    this.#timer?.cancel();
    this.#timer = null;
  }

  #look(): void {
    for (const held of this.#held) {
      if (!this.#tokens.isGood(held.token)) void this.#ask(held);
      else if (held.checked !== held.token.principal) this.#check(held);
    }
  }

  /** It has to be verified again before it counts. */
  async #ask(held: Held): Promise<void> {
    if (held.isAsking) return;
    held.isAsking = true;
    try {
      this.#renew(held, await this.#tokens.admit(held.token.token));
      this.#check(held);
    } catch (error) {
      // Anything else is a fault of ours or of the database: nobody can tell, and the next look asks again.
      if (error instanceof AppError && error.status < 500) this.#refuse(held, error);
    } finally {
      held.isAsking = false;
    }
  }

  #renew(held: Held, token: RememberedToken): void {
    if (!this.#held.has(held)) return;
    this.#tokens.hold(held.token, false);
    held.token = token;
    this.#tokens.hold(token, true);
  }

  #check(held: Held): void {
    const { principal } = held.token;
    try {
      held.check(principal);
      held.checked = principal;
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      this.#refuse(held, error);
    }
  }

  #refuse(held: Held, error: AppError): void {
    // Released meanwhile: nothing is left to be ended.
    if (!this.#held.has(held)) return;
    this.#release(held);
    held.onRefused(error);
  }
}
