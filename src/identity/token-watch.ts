import type { Clock, Timer } from "../kit/clock.ts";
import { AppError } from "../model/errors.ts";
import type { Principal } from "./principal.ts";
import type { RememberedToken, Tokens } from "./tokens.ts";

/** A stream or WebSocket that is open with a token. */
type Held = {
  token: RememberedToken;
  /** The principal of the last check; a new judgement makes a new one. */
  checked: Principal;
  readonly check: (principal: Principal) => void;
  readonly onRefused: (error: AppError) => void;
  isAsking: boolean;
};

/** With the 2.5 s after which a judgement is renewed, well below the 5 s within which a revoked token stops. */
const LOOK_MS = 500;

/** Ends streams and WebSockets when their token is no longer valid, or its principal may do less. */
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
   * Calls `onRefused` once when the token is no longer valid, or `check` throws for its current principal. Nothing changes
   * while the database is unreachable. Returns a function that ends the watch.
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

  async #ask(held: Held): Promise<void> {
    if (held.isAsking) return;
    held.isAsking = true;
    try {
      const token = await this.#tokens.admit(held.token.token);
      // It may have been released meanwhile.
      if (!this.#held.has(held)) return;
      this.#tokens.hold(held.token, false);
      this.#tokens.hold(token, true);
      held.token = token;
      this.#check(held);
    } catch (error) {
      // Other errors are ours or the database's; the next look retries.
      if (error instanceof AppError && error.status < 500) this.#refuse(held, error);
    } finally {
      held.isAsking = false;
    }
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
    // It may have been released meanwhile.
    if (!this.#held.has(held)) return;
    this.#release(held);
    held.onRefused(error);
  }
}
