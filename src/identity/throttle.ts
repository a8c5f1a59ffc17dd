import type { Clock } from "../kit/clock.ts";
import { addressKey } from "../kit/ip-addresses.ts";
import { AppError } from "../model/errors.ts";
import { AttemptLimiter } from "../kit/rate-limits.ts";

/** Many people may sit behind one address. */
const BY_ADDRESS = { burst: 20, gapMs: 3_000 };
/** A thousand guesses a day at one password, from however many addresses. */
const BY_ACCOUNT = { burst: 10, gapMs: 60_000 };
/** Somebody who has signed in from an address before mistypes now and then. */
const BY_KNOWN = { burst: 10, gapMs: 10_000 };
const MAX_KNOWN = 10_000;
/** People with one e-mail address at one network address; a household, not a crowd. */
const MAX_KNOWN_EACH = 8;

type Held = readonly [AttemptLimiter, string];

/** An attempt to sign in that was let through. */
export type Attempt = {
  /** Told whose password it was, null for nobody's; whether they are let in. */
  settle(personId: string | null): boolean;
};

/**
 * Slows down password guessing. Only failures count. Guesses from elsewhere never stop somebody at an address
 * from which they have signed in before: that has a count of its own. Several people may go by one e-mail address,
 * so that count is only for the password of whoever signed in there: a guess at another's is one from elsewhere.
 */
export class SignInThrottle {
  readonly #byAddress: AttemptLimiter;
  readonly #byAccount: AttemptLimiter;
  readonly #byKnown: AttemptLimiter;
  readonly #choosing: AttemptLimiter;
  readonly #known = new Map<string, Set<string>>();

  constructor(clock: Clock) {
    this.#byAddress = new AttemptLimiter(BY_ADDRESS, clock);
    this.#byAccount = new AttemptLimiter(BY_ACCOUNT, clock);
    this.#byKnown = new AttemptLimiter(BY_KNOWN, clock);
    this.#choosing = new AttemptLimiter(BY_ACCOUNT, clock);
  }

  /** Admits an attempt at that name; the caller then reports its outcome. Throws `too_many_requests`. */
  enter(account: string, ip: string): Attempt {
    const address = addressKey(ip);
    const pair = `${address} ${account}`;
    const open: Held[] = [
      [this.#byAddress, address],
      [this.#byAccount, account],
    ];
    const known = this.#known.get(pair);
    const entry: Held[] = known ? [[this.#byKnown, pair]] : open;
    const waitMs = take(entry);
    if (waitMs > 0) throw tooMany(waitMs);
    return {
      settle: (personId) => {
        if (known && !(personId !== null && known.has(personId))) {
          // Not theirs: it counts like anybody's attempt, and if those are used up, it is refused.
          if (take(open) > 0) return false;
          if (personId !== null) giveBack(open);
        }
        if (personId === null) return false;
        giveBack(entry);
        this.#remember(pair, personId);
        return true;
      },
    };
  }

  /**
   * Counts a password that somebody chooses for what goes by that name; throws `too_many_requests`. Others may have
   * the same e-mail address, and who is told that the password is theirs has guessed it.
   */
  choose(account: string, ip: string): void {
    const waitMs = take([
      [this.#byAddress, `choosing ${addressKey(ip)}`],
      [this.#choosing, account],
    ]);
    if (waitMs > 0) throw tooMany(waitMs);
  }

  #remember(pair: string, personId: string): void {
    const people = this.#known.get(pair) ?? new Set();
    this.#known.delete(pair);
    this.#known.set(pair, people);
    people.delete(personId);
    people.add(personId);
    dropOldest(people, MAX_KNOWN_EACH);
    dropOldest(this.#known, MAX_KNOWN);
  }
}

/** Takes one attempt of each, or of none: 0, or the milliseconds until there is one. */
function take(held: readonly Held[]): number {
  const taken: Held[] = [];
  for (const [limiter, key] of held) {
    const waitMs = limiter.take(key);
    if (waitMs > 0) {
      giveBack(taken);
      return waitMs;
    }
    taken.push([limiter, key]);
  }
  return 0;
}

function giveBack(held: readonly Held[]): void {
  for (const [limiter, key] of held) limiter.giveBack(key);
}

/** The first that was put in goes, where there are too many. */
function dropOldest(
  entries: { readonly size: number; keys(): Iterable<string>; delete(key: string): unknown },
  max: number,
): void {
  if (entries.size <= max) return;
  const [oldest] = entries.keys();
  if (oldest !== undefined) entries.delete(oldest);
}

/** The refusal of an attempt that comes too early. */
export function tooMany(waitMs: number): AppError {
  return new AppError("too_many_requests", { headers: { "retry-after": String(Math.ceil(waitMs / 1000)) } });
}
