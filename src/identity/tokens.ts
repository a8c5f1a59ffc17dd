import { randomUUID } from "node:crypto";
import type { CallLimits, Role } from "../model/roles.ts";
import { AppError } from "../model/errors.ts";
import type { Clock } from "../kit/clock.ts";
import { withTimeout } from "../kit/clock.ts";
import type { AccountChange } from "../store/accounts/accounts.ts";
import type { Store } from "../store/store.ts";
import { CHALLENGE } from "./bearer.ts";
import type { KeyRing } from "./key-ring.ts";
import type { Principal } from "./principal.ts";
import { TokenSigner } from "./signed-token.ts";
import type { Reading } from "./signed-token.ts";
import { TokenJudge, hashSecret } from "./token-judge.ts";
import { TokenMemory } from "./token-memory.ts";

const MAX_REMEMBERED = 10_000;
/** Where no word of it comes, a token that another process revoked stops within this time: no older judgement counts. */
const JUDGED_FOR_MS = 5_000;
/** From this age on a judgement is renewed in passing, so that a token in use never waits for one. */
const RECHECK_MS = 2_500;
/** If a question failed, or is open for this long, the database counts as unreachable; later it may be back. */
const ANSWER_MS = 2_500;
/** While it is unreachable, a token in use asks again this often. */
const ASK_AGAIN_MS = 1_000;
const ACCESS_MS = 15 * 60_000;

/** A token that was found good. Whoever holds on to this must ask `isGood` before each use. */
export type RememberedToken = { readonly token: string; readonly principal: Principal };

type Judgement = { readonly principal: Principal; readonly reading: Reading };

type Remembered = {
  readonly token: string;
  principal: Principal;
  reading: Reading;
  /** By the monotonic clock: a judgement must not look younger than it is. */
  checkedAt: number;
  /** The question to the database that is under way; it never rejects. */
  asking: Promise<void> | null;
  /** When the latest question was put, by the same clock. */
  askedAt: number;
  /** The error of the latest failed question; null once one was answered. */
  failure: { readonly at: number; readonly error: unknown } | null;
  isVoid: boolean;
  holders: number;
};

export type NewAccount = {
  readonly projectId: string;
  readonly name: string;
  readonly description?: string | null;
  readonly role: Role;
  /** Of role `call`, which needs some. */
  readonly limits?: CallLimits | null;
  readonly expiresAt: number;
};

/** How an account's token is replaced. */
export type Rotation = {
  /** Null: the new token gets the same lifetime as the one before. */
  readonly expiresAt: number | null;
  /** How long earlier tokens stay valid. */
  readonly overlapMs: number;
};

export type TokensParts = {
  readonly store: Store;
  readonly keys: KeyRing;
  readonly instanceId: string;
  readonly clock: Clock;
  /** How old a judgement may be that counts while the database cannot be asked. */
  readonly graceMs: number;
};

/**
 * Makes tokens and knows them again. A token is verified once, then remembered until it expires or is revoked. While
 * the database cannot be asked a remembered one stays good for a grace, and is asked about in passing.
 */
export class Tokens {
  readonly #store: Store;
  readonly #signer: TokenSigner;
  readonly #judge: TokenJudge;
  readonly #clock: Clock;
  readonly #graceMs: number;
  readonly #remembered = new TokenMemory<Remembered>(MAX_REMEMBERED);
  /** Judgements under way; one that began before its subject changed may be wrong. */
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
    const callLimits = limits && JSON.stringify(limits);
    const id = `sa-${randomUUID()}`;
    const { token, jti } = this.#sign(id, account);
    await this.#store.accounts.insert({
      account: { id, projectId, name, description, role, callLimits, createdAt, expiresAt },
      token: { jtiHash: hashSecret(jti) },
    });
    return { accountId: id, token, createdAt };
  }

  /** A new token for an account; null when the project has no such account, or it is revoked. */
  async rotate(
    projectId: string,
    accountId: string,
    { expiresAt: wanted, overlapMs }: Rotation,
  ): Promise<{ token: string; expiresAt: number } | null> {
    const found = await this.#store.accounts.find({ id: accountId, projectId });
    if (!found) return null;
    const { account } = found;
    const now = this.#clock.now();
    const expiresAt = wanted ?? now + account.expiresAt - found.token.createdAt;
    const { token, jti } = this.#sign(accountId, { projectId, role: account.role, expiresAt });
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
   * A token for an end user of an account of role `call`; null when the project has no such account, or it is revoked.
   * Nothing of it is stored: it ends with the account's own token that is the newest now.
   */
  async issueForUser(
    projectId: string,
    accountId: string,
    { user, lifeMs }: { readonly user: string; readonly lifeMs: number },
  ): Promise<{ token: string; expiresAt: number } | null> {
    const found = await this.#store.accounts.find({ id: accountId, projectId });
    const now = this.#clock.now();
    if (!found || found.account.role !== "call" || found.account.revokedAt !== null) return null;
    const endsAt = Math.min(now + lifeMs, found.account.expiresAt, found.token.expiresAt);
    // To the second, as the token itself tells it: no row says more exactly when it ends.
    const expiresAt = Math.floor(endsAt / 1000) * 1000;
    if (expiresAt <= now) return null;
    const parent = Buffer.from(found.token.jtiHash).toString("base64url");
    const claims = { project_id: projectId, role: "call", user, parent };
    const { token } = this.#signer.sign({ subject: accountId, expiresAt, claims });
    return { token, expiresAt };
  }

  /**
   * Changes an account; false when the project has no such account, it is revoked, would live longer, or has other limits
   * than `limitsBefore`.
   */
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
    const { token } = this.#signer.sign({ subject: personId, expiresAt, claims: { sid: sessionId } });
    return { token, expiresAt };
  }

  /** From now on what the database says about an account or a person counts here. */
  forgetSubject(subject: string): void {
    this.#judge.startAnew();
    for (const judging of this.#judging) if (judging.subject === subject) judging.isOutdated = true;
    for (const remembered of this.#remembered.all()) {
      const { principal } = remembered;
      const held = principal.projectId === null ? principal.personId : principal.accountId;
      if (held === subject) this.#forget(remembered);
    }
  }

  /** Anybody's rights may have changed: the database is asked before a token counts again, while it can be. */
  reconsiderAll(): void {
    this.#judge.startAnew();
    for (const judging of this.#judging) judging.isOutdated = true;
    const judgedAt = this.#clock.monotonic() - JUDGED_FOR_MS - 1;
    for (const known of this.#remembered.all()) known.checkedAt = Math.min(known.checkedAt, judgedAt);
  }

  /** A token seen before and still good; undefined when it has to be verified. */
  recall(token: string): RememberedToken | undefined {
    const known = this.#remembered.get(token);
    return known && this.isGood(known) ? known : undefined;
  }

  /** Whether a remembered token counts as it is; if not, it has to be verified. Costs a look at the clock. */
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

  /** Something is open by a token's right: it stays remembered until as many have let go of it. */
  hold(remembered: RememberedToken, isHeld: boolean): void {
    (remembered as Remembered).holders += isHeld ? 1 : -1;
  }

  /** The token, remembered or verified now; throws `unauthorized`. */
  async admit(token: string): Promise<RememberedToken> {
    return this.recall(token) ?? (await this.verify(token));
  }

  /** Verifies a token; throws `unauthorized`. */
  async verify(token: string): Promise<RememberedToken> {
    const known = this.#remembered.get(token);
    if (known) return await this.#verifyAgain(known);
    const judgedAt = this.#clock.monotonic();
    const judgement = await this.#judgeNow(token, null);
    if (!judgement) throw refusal();
    // Another call may have brought it meanwhile.
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

  /** A token seen before waits for an answer while one can be expected, then stays valid during its grace. */
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

  #sign(
    accountId: string,
    { projectId, role, expiresAt }: Pick<NewAccount, "projectId" | "role" | "expiresAt">,
  ): { token: string; jti: string } {
    return this.#signer.sign({
      subject: accountId,
      expiresAt,
      claims: { project_id: projectId, role },
    });
  }

  #forget(known: Remembered): void {
    known.isVoid = true;
    this.#remembered.delete(known);
  }

  /** In place: whoever holds on to it sees the change, and a revocation reaches every holder. */
  #renew(known: Remembered, { principal, reading }: Judgement, judgedAt: number): Remembered {
    known.principal = principal;
    known.reading = reading;
    known.checkedAt = judgedAt;
    known.failure = null;
    return known;
  }

  /** Asks the database about a token, once at a time; what it says counts for everyone who holds on to it. */
  #ask(known: Remembered): Promise<void> {
    known.asking ??= this.#judgeAgain(known).finally(() => (known.asking = null));
    return known.asking;
  }

  async #judgeAgain(known: Remembered): Promise<void> {
    // Taken before: what changes while the database is asked may be missed, and has to count as older.
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

  /** Null for a token that is not good; other failures are thrown. */
  async #judgeNow(token: string, before: Reading | null): Promise<Judgement | null> {
    const reading = await this.#signer.read(token, before);
    if (!reading) return null;
    const { claims } = reading;
    const judging = { subject: claims.sub, isOutdated: false };
    this.#judging.add(judging);
    try {
      let principal = await this.#judge.judge(claims);
      // Else what was read before a revocation would be remembered after it.
      while (judging.isOutdated && principal) {
        judging.isOutdated = false;
        principal = await this.#judge.judge(claims);
      }
      return principal && { principal, reading };
    } finally {
      this.#judging.delete(judging);
    }
  }

  /** What is remembered of the account is dropped when the change is done, or when it is unclear whether it was. */
  async #changing<Result>(accountId: string, change: Promise<Result>): Promise<Result> {
    try {
      const result = await change;
      this.forgetSubject(accountId);
      return result;
    } catch (error) {
      if (error instanceof AppError && error.code === "in_doubt") this.forgetSubject(accountId);
      throw error;
    }
  }
}

/** Whether the database was asked about the token, and did not answer. */
function isUnanswered({ asking, askedAt, failure }: Remembered, now: number): boolean {
  if (asking && now - askedAt > ANSWER_MS) return true;
  return failure !== null && now - failure.at <= ANSWER_MS;
}

function refusal(): AppError {
  const message = "The token is invalid, expired or revoked.";
  return new AppError("unauthorized", { message, headers: CHALLENGE });
}
