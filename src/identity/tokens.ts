import { randomUUID } from "node:crypto";
import { AppError } from "../model/errors.ts";
import type { Clock } from "../kit/clock.ts";
import type { AccountChange } from "../store/accounts.ts";
import type { Store } from "../store/store.ts";
import { CHALLENGE } from "./bearer.ts";
import type { KeyRing } from "./key-ring.ts";
import type { Principal, Role } from "./principal.ts";
import { TokenSigner } from "./signed-token.ts";
import { TokenJudge, hashSecret } from "./token-judge.ts";

const MAX_REMEMBERED = 10_000;
/** A token revoked by another process stops working within this time: no older judgement counts. */
const JUDGED_FOR_MS = 5_000;
/** From this age on a judgement is renewed in passing, so that a token in use never waits for one. */
const RECHECK_MS = 2_500;
const ACCESS_MS = 15 * 60_000;

/** A token that was found good. Whoever holds on to this must ask `isGood` before each use. */
export type RememberedToken = { readonly token: string; readonly principal: Principal };

type Remembered = {
  readonly token: string;
  principal: Principal;
  /** By the clock that cannot be set: a judgement must not look younger than it is. */
  checkedAt: number;
  isRechecking: boolean;
  isVoid: boolean;
};

export type NewAccount = {
  readonly projectId: string;
  readonly name: string;
  readonly description?: string | null;
  readonly role: Role;
  readonly expiresAt: number;
};

/** How an account's token is replaced. */
export type Rotation = {
  /** Null: the new token lives as long as the one before was to. */
  readonly expiresAt: number | null;
  /** So long the tokens before it go on. */
  readonly overlapMs: number;
};

/** Makes tokens and knows them again. A token is verified once, then remembered until it expires or is revoked. */
export class Tokens {
  readonly #store: Store;
  readonly #signer: TokenSigner;
  readonly #judge: TokenJudge;
  readonly #clock: Clock;
  readonly #remembered = new Map<string, Remembered>();

  constructor(store: Store, keys: KeyRing, instanceId: string, clock: Clock) {
    this.#store = store;
    this.#signer = new TokenSigner(keys, instanceId, clock);
    this.#judge = new TokenJudge(store, clock);
    this.#clock = clock;
  }

  /** Creates a service account and returns its token, which is stored nowhere. */
  async issue(account: NewAccount): Promise<{ accountId: string; token: string; createdAt: number }> {
    const createdAt = this.#clock.now();
    const { projectId, name, description = null, role, expiresAt } = account;
    const id = `sa-${randomUUID()}`;
    const { token, jti } = await this.#sign(id, account);
    await this.#store.accounts.insert({
      account: { id, projectId, name, description, role, createdAt, expiresAt },
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
    const { account, tokenCreatedAt } = found;
    const now = this.#clock.now();
    const expiresAt = wanted ?? now + account.expiresAt - tokenCreatedAt;
    const { token, jti } = await this.#sign(accountId, { projectId, role: account.role, expiresAt });
    const isRotated = await this.#store.accounts.rotate({
      id: accountId,
      projectId,
      jtiHash: hashSecret(jti),
      now,
      expiresAt,
      // The account now lives longer, but its earlier tokens do not.
      othersEndAt: Math.min(now + overlapMs, account.expiresAt),
    });
    this.#forgetAccount(accountId);
    return isRotated ? { token, expiresAt } : null;
  }

  /** Changes an account; false when the project has no such account, it is revoked, or would live longer. */
  async update(projectId: string, accountId: string, change: AccountChange): Promise<boolean> {
    const isUpdated = await this.#store.accounts.update({ id: accountId, projectId, change });
    this.#forgetAccount(accountId);
    return isUpdated;
  }

  /** Revokes an account; its tokens stop working here at once, elsewhere within 5 s. */
  async revoke(projectId: string, accountId: string): Promise<boolean> {
    const isRevoked = await this.#store.accounts.revoke({ id: accountId, projectId, now: this.#clock.now() });
    this.#forgetAccount(accountId);
    return isRevoked;
  }

  /** A short-lived token for a person's session. */
  async issueAccess(personId: string, sessionId: string): Promise<{ token: string; expiresAt: number }> {
    const expiresAt = this.#clock.now() + ACCESS_MS;
    const { token } = await this.#signer.sign({ subject: personId, expiresAt, claims: { sid: sessionId } });
    return { token, expiresAt };
  }

  /** From now on what the database says about a person counts here; elsewhere within 5 s. */
  forgetPerson(personId: string): void {
    this.#forgetAll((principal) => principal.projectId === null && principal.personId === personId);
  }

  /** A token seen before and still good; undefined when it has to be verified. */
  recall(token: string): RememberedToken | undefined {
    const known = this.#remembered.get(token);
    return known && this.isGood(known) ? known : undefined;
  }

  /** Whether a remembered token counts as it is; if not, it has to be verified. Costs a look at the clock. */
  isGood(remembered: RememberedToken): boolean {
    const known = remembered as Remembered;
    const now = this.#clock.now();
    if (now >= known.principal.expiresAt) this.#forget(known);
    const ageMs = this.#clock.monotonic() - known.checkedAt;
    if (known.isVoid || ageMs > JUDGED_FOR_MS) return false;
    if (ageMs > RECHECK_MS && !known.isRechecking) {
      known.isRechecking = true;
      void this.#recheck(known);
    }
    return true;
  }

  /** The token, remembered or verified now; throws `unauthorized`. */
  async admit(token: string): Promise<RememberedToken> {
    return this.recall(token) ?? (await this.verify(token));
  }

  /** Verifies a token; throws `unauthorized`. */
  async verify(token: string): Promise<RememberedToken> {
    const judgedAt = this.#clock.monotonic();
    const principal = await this.#judgeOrTrust(token);
    const known = this.#remembered.get(token);
    if (!principal) {
      if (known) this.#forget(known);
      const message = "The token is invalid, expired or revoked.";
      throw new AppError("unauthorized", { message, headers: CHALLENGE });
    }
    if (known) return this.#renew(known, principal, judgedAt);
    if (this.#remembered.size >= MAX_REMEMBERED) {
      const [oldest] = this.#remembered.values();
      if (oldest) this.#forget(oldest);
    }
    const remembered = { token, principal, checkedAt: judgedAt, isRechecking: false, isVoid: false };
    this.#remembered.set(token, remembered);
    return remembered;
  }

  async #sign(
    accountId: string,
    { projectId, role, expiresAt }: Pick<NewAccount, "projectId" | "role" | "expiresAt">,
  ): Promise<{ token: string; jti: string }> {
    return await this.#signer.sign({
      subject: accountId,
      expiresAt,
      claims: { project_id: projectId, role },
    });
  }

  #forgetAccount(accountId: string): void {
    this.#forgetAll((principal) => principal.projectId !== null && principal.accountId === accountId);
  }

  #forgetAll(isMeant: (principal: Principal) => boolean): void {
    for (const remembered of this.#remembered.values()) {
      if (isMeant(remembered.principal)) this.#forget(remembered);
    }
  }

  #forget(known: Remembered): void {
    known.isVoid = true;
    this.#remembered.delete(known.token);
  }

  /** In place: whoever holds on to it sees the change, and a revocation reaches every holder. */
  #renew(known: Remembered, principal: Principal, judgedAt: number): Remembered {
    known.principal = principal;
    known.checkedAt = judgedAt;
    return known;
  }

  async #recheck(known: Remembered): Promise<void> {
    // Taken before: what changes while the database is asked may be missed, and has to count as older.
    const judgedAt = this.#clock.monotonic();
    try {
      const principal = await this.#judgeNow(known.token);
      if (principal) this.#renew(known, principal, judgedAt);
      else this.#forget(known);
    } catch {
      // The database is away: the judgement grows old, and `verify` decides.
    } finally {
      known.isRechecking = false;
    }
  }

  /** While the database is away, what was good stays good until it can be asked again. */
  async #judgeOrTrust(token: string): Promise<Principal | null> {
    try {
      return await this.#judgeNow(token);
    } catch (error) {
      const known = this.#remembered.get(token);
      if (!known || this.#clock.now() >= known.principal.expiresAt) throw error;
      return known.principal;
    }
  }

  /** Null for a token that is not good; other failures are thrown. */
  async #judgeNow(token: string): Promise<Principal | null> {
    const claims = await this.#signer.read(token);
    return claims && (await this.#judge.judge(claims));
  }
}
