import type { Clock } from "../kit/clock.ts";
import { addressKey } from "../kit/ip-addresses.ts";
import { AttemptLimiter } from "../kit/rate-limits.ts";
import { AppError } from "../model/errors.ts";

/** Many people may share a network address. */
const BY_ADDRESS = { burst: 20, gapMs: 3_000 };
/** About 1,400 guesses a day at one account, from any number of network addresses. */
const BY_ACCOUNT = { burst: 10, gapMs: 60_000 };
/** For people who have signed in from the network address before. */
const BY_KNOWN = { burst: 10, gapMs: 10_000 };
const MAX_KNOWN = 10_000;
/** People with the same e-mail address at one network address. */
const MAX_KNOWN_EACH = 8;

type Held = readonly [AttemptLimiter, string];

/**
 * Slows down password guessing. Only failures count. Network addresses from which a person has signed in before have their
 * own count, so that guesses from other addresses do not lock the person out. Several people may have the same e-mail
 * address, so that count applies only to the person who signed in there.
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

  /** Admits an attempt; the caller then reports its outcome. Throws `too_many_requests`. */
  enter(account: string, ip: string) {
    const address = addressKey(ip);
    const pair = `${address} ${account}`;
    const byAddress: Held = [this.#byAddress, address];
    const open: readonly Held[] = [byAddress, [this.#byAccount, account]];
    const known = this.#known.get(pair);
    const entry: readonly Held[] = known ? [[this.#byKnown, pair]] : open;
    requireNoWait(take(entry));
    return {
      /** Reports the owner of the password, or null; returns whether the person may sign in. */
      settle: (personId: string | null): boolean => {
        if (known && !(personId !== null && known.has(personId))) {
          // Another person's password: it counts as an attempt from an unknown address.
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

  /** Counts a newly chosen password, which is a guess if it is refused because another person has it. */
  choose(account: string, ip: string): void {
    const choosing: Held = [this.#byAddress, `choosing ${addressKey(ip)}`];
    requireNoWait(take([choosing, [this.#choosing, account]]));
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

/** Takes one attempt of each, or none; returns 0, or the milliseconds to wait. */
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

/** Removes the oldest entry if there are more than `max`. */
function dropOldest(entries: Map<string, unknown> | Set<string>, max: number): void {
  const [oldest] = entries.keys();
  if (oldest !== undefined && entries.size > max) entries.delete(oldest);
}

export function tooMany(waitMs: number): AppError {
  return new AppError("too_many_requests", { headers: { "retry-after": String(Math.ceil(waitMs / 1000)) } });
}

function requireNoWait(waitMs: number): void {
  if (waitMs > 0) throw tooMany(waitMs);
}

/** Takes one attempt; throws `too_many_requests` if none is left. */
export function spend(limiter: AttemptLimiter, key: string): void {
  requireNoWait(limiter.take(key));
}

/** Mails to one address. */
const TO_ONE = { burst: 3, gapMs: 600_000 };
/** Mails caused by one project, person or network address, which many people may share. */
const BY_ONE = { burst: 50, gapMs: 30_000 };

/** Limits the mails that requests cause, whether or not a mail is sent. */
export class MailQuota {
  readonly #to: AttemptLimiter;
  readonly #by: AttemptLimiter;

  constructor(clock: Clock) {
    this.#to = new AttemptLimiter(TO_ONE, clock);
    this.#by = new AttemptLimiter(BY_ONE, clock);
  }

  /** Counts a mail of a kind; throws `too_many_requests`. */
  spend(kind: "invitation" | "proof" | "password", { to, by }: { to: string; by: readonly string[] }): void {
    const waits = [...by.map((one) => this.#by.take(`${kind} ${one}`)), this.#to.take(`${kind} ${to}`)];
    requireNoWait(Math.max(...waits));
  }
}
