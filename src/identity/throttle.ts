import type { Clock } from "../kit/clock.ts";
import { addressKey } from "../kit/listener/client-address.ts";
import { AppError } from "../model/errors.ts";
import { AttemptLimiter } from "./attempt-limiter.ts";

/** Many people may sit behind one address. */
const BY_ADDRESS = { burst: 20, gapMs: 3_000 };
/** A thousand guesses a day at one password, from however many addresses. */
const BY_ACCOUNT = { burst: 10, gapMs: 60_000 };
/** Who has signed in from an address before mistypes now and then. */
const BY_KNOWN = { burst: 10, gapMs: 10_000 };
const MAX_KNOWN = 10_000;

/**
 * Slows down who guesses passwords. Only failures count. Guesses from elsewhere never stop somebody at an address
 * from which they have signed in before: that has a count of its own.
 */
export class SignInThrottle {
  readonly #byAddress: AttemptLimiter;
  readonly #byAccount: AttemptLimiter;
  readonly #byKnown: AttemptLimiter;
  readonly #known = new Set<string>();

  constructor(clock: Clock) {
    this.#byAddress = new AttemptLimiter(BY_ADDRESS, clock);
    this.#byAccount = new AttemptLimiter(BY_ACCOUNT, clock);
    this.#byKnown = new AttemptLimiter(BY_KNOWN, clock);
  }

  /** Lets an attempt through, to be told its end; throws `too_many_requests`. */
  enter(account: string, ip: string): { succeed(): void } {
    const address = addressKey(ip);
    const pair = `${address} ${account}`;
    const held: [AttemptLimiter, string][] = this.#known.has(pair)
      ? [[this.#byKnown, pair]]
      : [
          [this.#byAddress, address],
          [this.#byAccount, account],
        ];
    const taken: typeof held = [];
    const giveBack = (): void => {
      for (const [limiter, key] of taken) limiter.giveBack(key);
    };
    for (const [limiter, key] of held) {
      const waitMs = limiter.take(key);
      if (waitMs > 0) {
        giveBack();
        throw tooMany(waitMs);
      }
      taken.push([limiter, key]);
    }
    return {
      succeed: () => {
        giveBack();
        this.#remember(pair);
      },
    };
  }

  #remember(pair: string): void {
    this.#known.delete(pair);
    this.#known.add(pair);
    if (this.#known.size <= MAX_KNOWN) return;
    const [oldest] = this.#known;
    if (oldest !== undefined) this.#known.delete(oldest);
  }
}

/** The refusal of an attempt that comes too early. */
export function tooMany(waitMs: number): AppError {
  return new AppError("too_many_requests", { headers: { "retry-after": String(Math.ceil(waitMs / 1000)) } });
}
