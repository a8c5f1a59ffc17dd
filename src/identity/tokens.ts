import { randomUUID } from "node:crypto";
import { type Clock, withTimeout } from "../kit/clock.ts";
import { USUAL_WEIGHT } from "../model/queue-limits.ts";
import type { CallLimits, Role } from "../model/roles.ts";
import { AppError, isInDoubt } from "../model/errors.ts";
import { packQuotas, type Quotas } from "../model/usage.ts";
import type { AccountChange } from "../store/accounts/accounts.ts";
import type { Store } from "../store/store.ts";
import type { KeyRing } from "./key-ring.ts";
import { CHALLENGE, type Principal, subjectOf } from "./principal.ts";
import { type Reading, TokenSigner } from "./signed-token.ts";
import { hashSecret, TokenJudge } from "./token-judge.ts";

/** `holders`: how many streams and WebSockets are open with it. */
type Kept = { readonly token: string; holders: number };

/** How many entries are checked for each new one, so that a memory full of held tokens is not scanned whole. */
const LOOKED_AT = 16;

/** Remembers a limited number of tokens. Those with open streams or WebSockets stay: each check needs them again. */
export class TokenMemory<Remembered extends Kept> {
  readonly #max: number;
  readonly #byToken = new Map<string, Remembered>();

  constructor(max: number) {
    this.#max = max;
  }

  get(token: string): Remembered | undefined {
    return this.#byToken.get(token);
  }

  /** Adds a token; returns those that were evicted. */
  add(remembered: Remembered): Remembered[] {
    const forgotten = this.#makeRoom();
    this.#byToken.set(remembered.token, remembered);
    return forgotten;
  }

  delete({ token }: Remembered): void {
    this.#byToken.delete(token);
  }

  all(): Iterable<Remembered> {
    return this.#byToken.values();
  }

  #makeRoom(): Remembered[] {
    const forgotten: Remembered[] = [];
    let left = LOOKED_AT;
    for (const oldest of this.#byToken.values()) {
      if (this.#byToken.size < this.#max || left === 0) break;
      left -= 1;
      this.#byToken.delete(oldest.token);
      // A held token moves to the end.
      if (oldest.holders > 0) this.#byToken.set(oldest.token, oldest);
      else forgotten.push(oldest);
    }
    return forgotten;
  }
}

const MAX_REMEMBERED = 10_000;
/** A judgement is valid for this long: the limit for revocations by another process whose notification is lost. */
const JUDGED_FOR_MS = 5_000;
/** From this age on, a judgement is renewed in the background, so that a token in use never waits for it. */
const RECHECK_MS = 2_500;
/** The database counts as unreachable for this long after a failed query, or if a query takes longer. */
const ANSWER_MS = 2_500;
/** How often a token in use is checked again while the database is unreachable. */
const ASK_AGAIN_MS = 1_000;
const ACCESS_MS = 15 * 60_000;

/** A token that was valid. Call `isGood` before each use. */
export type RememberedToken = { readonly token: string; readonly principal: Principal };

type Judgement = { readonly principal: Principal; readonly reading: Reading };

type Remembered = Kept & {
  principal: Principal;
  reading: Reading;
  /** By the monotonic clock. */
  checkedAt: number;
  /** The running query to the database; it never rejects. */
  asking: Promise<void> | null;
  /** When the latest query began, by the same clock. */
  askedAt: number;
  /** The error of the latest query; null if it succeeded. */
  failure: { readonly at: number; readonly error: unknown } | null;
  isVoid: boolean;
};

type NewAccount = {
  readonly projectId: string;
  readonly name: string;
  readonly description?: string | null;
  readonly role: Role;
  /** For the role `call`, which requires them. */
  readonly limits?: CallLimits | null;
  readonly weight?: number;
  readonly quotas?: Quotas | null;
  readonly expiresAt: number;
};

type TokensParts = {
  readonly store: Store;
  readonly keys: KeyRing;
  readonly instanceId: string;
  readonly clock: Clock;
  /** How old a judgement may be while the database is unreachable. */
  readonly graceMs: number;
};

/**
 * Issues and verifies tokens. A token is verified once, then remembered until it expires or is revoked. While the database
 * is unreachable, a remembered token stays valid for a grace period and is checked in the background.
 */
export class Tokens {
  readonly #store: Store;
  readonly #signer: TokenSigner;
  readonly #judge: TokenJudge;
  readonly #clock: Clock;
  readonly #graceMs: number;
  readonly #remembered = new TokenMemory<Remembered>(MAX_REMEMBERED);
  /** Running judgements; those that began before their subject changed are outdated. */
  readonly #judging = new Set<{ readonly subject: string; isOutdated: boolean }>();

  constructor({ store, keys, instanceId, clock, graceMs }: TokensParts) {
    this.#store = store;
    this.#graceMs = graceMs;
    this.#signer = new TokenSigner(keys, instanceId, clock);
    this.#judge = new TokenJudge(store, clock);
    this.#clock = clock;
  }

  /** Creates a service account and returns its token, which is stored nowhere. */
  async issue(account: NewAccount): Promise<{ accountId: string; token: string; createdAt: number }> {
    const createdAt = this.#clock.now();
    const { projectId, name, description = null, role, limits = null, expiresAt } = account;
    const { weight = USUAL_WEIGHT, quotas: given = null } = account;
    const quotas = packQuotas(given);
    const callLimits = limits && JSON.stringify(limits);
    const id = `sa-${randomUUID()}`;
    const { token, jti } = this.#signer.sign(id, expiresAt, { project_id: projectId, role });
    await this.#store.accounts.insert({
      account: { id, projectId, name, description, role, callLimits, weight, quotas, createdAt, expiresAt },
      token: { jtiHash: hashSecret(jti) },
    });
    return { accountId: id, token, createdAt };
  }

  /**
   * A new token for an account; null if the project has no such account, or it is revoked. `expiresAt`: null for the same
   * lifetime as before. Earlier tokens stay valid for `overlapMs`.
   */
  async rotate(
    projectId: string,
    accountId: string,
    { expiresAt: wanted, overlapMs }: { expiresAt: number | null; overlapMs: number },
  ): Promise<{ token: string; expiresAt: number } | null> {
    const found = await this.#store.accounts.find({ id: accountId, projectId });
    if (!found) return null;
    const { account } = found;
    const now = this.#clock.now();
    const expiresAt = wanted ?? now + account.expiresAt - found.token.createdAt;
    const claims = { project_id: projectId, role: account.role };
    const { token, jti } = this.#signer.sign(accountId, expiresAt, claims);
    const rotating = this.#store.accounts.rotate({
      id: accountId,
      projectId,
      jtiHash: hashSecret(jti),
      now,
      expiresAt,
      // The account now lives longer, but its earlier tokens do not.
      othersEndAt: Math.min(now + overlapMs, account.expiresAt),
    });
    const isRotated = await this.#changing(accountId, rotating);
    return isRotated ? { token, expiresAt } : null;
  }

  /**
   * A token for an end user of an account of role `call`; null if the project has no such account, or it is revoked. It is
   * not stored, and ends with the account's newest token.
   */
  async issueForUser(
    projectId: string,
    accountId: string,
    { user, lifeMs }: { user: string; lifeMs: number },
  ): Promise<{ token: string; expiresAt: number } | null> {
    const found = await this.#store.accounts.find({ id: accountId, projectId });
    const now = this.#clock.now();
    if (!found || found.account.role !== "call" || found.account.revokedAt !== null) return null;
    const endsAt = Math.min(now + lifeMs, found.account.expiresAt, found.token.expiresAt);
    // In whole seconds, like the token's `exp`: no row has its exact end.
    const expiresAt = Math.floor(endsAt / 1000) * 1000;
    if (expiresAt <= now) return null;
    const parent = Buffer.from(found.token.jtiHash).toString("base64url");
    const claims = { project_id: projectId, role: "call", user, parent };
    const { token } = this.#signer.sign(accountId, expiresAt, claims);
    return { token, expiresAt };
  }

  /** False if there is no such account, it is revoked, its expiry would move later, or its limits are others. */
  async update(
    projectId: string,
    accountId: string,
    change: AccountChange,
    limitsBefore?: string,
  ): Promise<boolean> {
    const key = { id: accountId, projectId };
    return await this.#changing(accountId, this.#store.accounts.update({ ...key, change, limitsBefore }));
  }

  /** Revokes an account; its tokens stop working here at once, on other nodes within a second. */
  async revoke(projectId: string, accountId: string): Promise<boolean> {
    const now = this.#clock.now();
    return await this.#changing(accountId, this.#store.accounts.revoke({ id: accountId, projectId, now }));
  }

  /** A short-lived token for a person's session. */
  issueAccess(personId: string, sessionId: string): { token: string; expiresAt: number } {
    const expiresAt = this.#clock.now() + ACCESS_MS;
    const { token } = this.#signer.sign(personId, expiresAt, { sid: sessionId });
    return { token, expiresAt };
  }

  /** Forgets the tokens of an account or a person, so that the database is asked again. */
  forgetSubject(subject: string): void {
    this.#judge.startAnew();
    for (const judging of this.#judging) if (judging.subject === subject) judging.isOutdated = true;
    for (const remembered of this.#remembered.all()) {
      if (subjectOf(remembered.principal) === subject) this.#forget(remembered);
    }
  }

  /** Any rights may have changed: each token is checked again before its next use, if the database is reachable. */
  reconsiderAll(): void {
    this.#judge.startAnew();
    for (const judging of this.#judging) judging.isOutdated = true;
    const judgedAt = this.#clock.monotonic() - JUDGED_FOR_MS - 1;
    for (const known of this.#remembered.all()) known.checkedAt = Math.min(known.checkedAt, judgedAt);
  }

  /** A remembered token that is still valid; undefined if it has to be verified. */
  recall(token: string): RememberedToken | undefined {
    const known = this.#remembered.get(token);
    return known && this.isGood(known) ? known : undefined;
  }

  /** Whether a remembered token is valid without a new check. */
  isGood(remembered: RememberedToken): boolean {
    const known = remembered as Remembered;
    if (this.#clock.now() >= known.principal.expiresAt) this.#forget(known);
    if (known.isVoid) return false;
    const now = this.#clock.monotonic();
    const ageMs = now - known.checkedAt;
    if (ageMs <= RECHECK_MS) return true;
    const isTrusted = ageMs <= JUDGED_FOR_MS || (ageMs <= this.#graceMs && isUnanswered(known, now));
    if (isTrusted && !known.asking && now - known.askedAt >= ASK_AGAIN_MS) void this.#ask(known);
    return isTrusted;
  }

  /** Keeps a token remembered while a stream or WebSocket is open with it. */
  hold(remembered: RememberedToken, isHeld: boolean): void {
    (remembered as Remembered).holders += isHeld ? 1 : -1;
  }

  /** The token, remembered or verified now; throws `unauthorized`. */
  async admit(token: string): Promise<RememberedToken> {
    return this.recall(token) ?? (await this.verify(token));
  }

  async verify(token: string): Promise<RememberedToken> {
    const known = this.#remembered.get(token);
    if (known) return await this.#verifyAgain(known);
    const judgedAt = this.#clock.monotonic();
    const judgement = await this.#judgeNow(token, null);
    if (!judgement) throw refusal();
    // Another call may have added it meanwhile.
    const meanwhile = this.#remembered.get(token);
    if (meanwhile) return this.#renew(meanwhile, judgement, judgedAt);
    const remembered: Remembered = {
      token,
      ...judgement,
      checkedAt: judgedAt,
      asking: null,
      askedAt: judgedAt,
      failure: null,
      isVoid: false,
      holders: 0,
    };
    for (const forgotten of this.#remembered.add(remembered)) forgotten.isVoid = true;
    return remembered;
  }

  /** Waits for the database for `ANSWER_MS`; after that, a remembered token stays valid during its grace period. */
  async #verifyAgain(known: Remembered): Promise<Remembered> {
    const asking = this.#ask(known);
    const askedMs = this.#clock.monotonic() - known.askedAt;
    await withTimeout(Math.max(0, ANSWER_MS - askedMs), asking, this.#clock);
    const isInGrace = (): boolean =>
      this.#clock.monotonic() - known.checkedAt <= Math.max(JUDGED_FOR_MS, this.#graceMs);
    if (!isInGrace()) await asking;
    if (this.#clock.now() >= known.principal.expiresAt) this.#forget(known);
    if (known.isVoid) throw refusal();
    if (known.failure && !isInGrace()) throw known.failure.error;
    return known;
  }

  #forget(known: Remembered): void {
    known.isVoid = true;
    this.#remembered.delete(known);
  }

  /** Changes the entry in place, so that all its holders see the change. */
  #renew(known: Remembered, { principal, reading }: Judgement, judgedAt: number): Remembered {
    known.principal = principal;
    known.reading = reading;
    known.checkedAt = judgedAt;
    known.failure = null;
    return known;
  }

  /** Checks a token against the database; concurrent calls share one query. */
  #ask(known: Remembered): Promise<void> {
    known.asking ??= this.#judgeAgain(known).finally(() => (known.asking = null));
    return known.asking;
  }

  async #judgeAgain(known: Remembered): Promise<void> {
    // Before the query: it may miss a change that happens while it runs.
    const judgedAt = this.#clock.monotonic();
    known.askedAt = judgedAt;
    try {
      const judgement = await this.#judgeNow(known.token, known.reading);
      if (judgement) this.#renew(known, judgement, judgedAt);
      else this.#forget(known);
    } catch (error) {
      known.failure = { at: this.#clock.monotonic(), error };
    }
  }

  /** Null for an invalid token; other failures are thrown. */
  async #judgeNow(token: string, before: Reading | null): Promise<Judgement | null> {
    const reading = await this.#signer.read(token, before);
    if (!reading) return null;
    const { claims } = reading;
    const judging = { subject: claims.sub, isOutdated: false };
    this.#judging.add(judging);
    try {
      let principal = await this.#judge.judge(claims);
      // Otherwise a read from before a revocation would be remembered after it.
      while (judging.isOutdated && principal) {
        judging.isOutdated = false;
        principal = await this.#judge.judge(claims);
      }
      return principal && { principal, reading };
    } finally {
      this.#judging.delete(judging);
    }
  }

  /** Forgets the account's tokens after the change, also if it is in doubt whether it happened. */
  async #changing<Result>(accountId: string, change: Promise<Result>): Promise<Result> {
    try {
      const result = await change;
      this.forgetSubject(accountId);
      return result;
    } catch (error) {
      if (isInDoubt(error)) this.forgetSubject(accountId);
      throw error;
    }
  }
}

/** Whether the database did not answer the latest query. */
function isUnanswered({ asking, askedAt, failure }: Remembered, now: number): boolean {
  if (asking && now - askedAt > ANSWER_MS) return true;
  return failure !== null && now - failure.at <= ANSWER_MS;
}

function refusal(): AppError {
  const message = "The token is invalid, expired or revoked.";
  return new AppError("unauthorized", { message, headers: CHALLENGE });
}
