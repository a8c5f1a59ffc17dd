import { createHash } from "node:crypto";
import type { Clock } from "../kit/clock.ts";
import { USUAL_WEIGHT } from "../model/queue-limits.ts";
import type { RunCaller } from "../model/run.ts";
import { type CallLimits, ROLES } from "../model/roles.ts";
import { readQuotas } from "../model/usage.ts";
import type { KnownToken, ServiceAccount } from "../store/accounts/accounts.ts";
import type { Store } from "../store/store.ts";
import { type AccountPrincipal, type PersonPrincipal, type Principal, ROLE_OF_MEMBER } from "./principal.ts";
import type { Claims } from "./signed-token.ts";

/** The use of an account is recorded at most this often. */
const USE_NOTED_EVERY_MS = 60_000;

/** Decides from the database what a signed token may do now. */
export class TokenJudge {
  readonly #store: Store;
  readonly #clock: Clock;
  /** Running reads by hash: the tokens of thousands of end users share the read of their account. */
  readonly #reading = new Map<string, Promise<KnownToken | null>>();

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  async judge(claims: Claims): Promise<Principal | null> {
    return claims.sid === undefined
      ? await this.#judgeAccount(claims)
      : await this.#judgePerson(claims, claims.sid);
  }

  /** After a change: later calls must not get the result of a read that began before it. */
  startAnew(): void {
    this.#reading.clear();
  }

  async #judgeAccount({ sub, jti, exp, endUser }: Claims): Promise<AccountPrincipal | null> {
    const known = await this.#read(endUser?.parentHash ?? hashSecret(jti));
    if (!known) return null;
    const { account, token } = known;
    const { id: accountId, projectId } = account;
    const now = this.#clock.now();
    const isVoid = account.revokedAt !== null || token.revokedAt !== null;
    const expiresAt = Math.min(exp * 1000, account.expiresAt, token.expiresAt);
    // The stored role applies, not the token's claim: a change takes effect without a new token.
    const role = ROLES.find((name) => name === account.role);
    if (isVoid || now >= expiresAt || !projectId || accountId !== sub || !role) return null;
    const limits = role === "call" ? storedLimits(account) : null;
    if (role === "call" ? !limits : endUser) return null;
    if (now - (account.lastUsedAt ?? 0) >= USE_NOTED_EVERY_MS) this.#noteUse(accountId, now);
    const caller = { accountId, user: endUser?.user ?? null };
    const fairness = { key: lineOf(caller), weight: account.weight };
    const quotas = readQuotas(account.quotas);
    return { accountId, projectId, role, limits, quotas, caller, fairness, expiresAt };
  }

  async #judgePerson({ sub, exp }: Claims, sessionId: string): Promise<PersonPrincipal | null> {
    const known = await this.#store.sessions.find(sessionId);
    if (known?.session.personId !== sub) return null;
    const { email, memberships, session } = known;
    const expiresAt = Math.min(exp * 1000, session.expiresAt);
    if (this.#clock.now() >= expiresAt) return null;
    const roles = new Map(memberships.map(({ projectId, role }) => [projectId, ROLE_OF_MEMBER[role]]));
    const caller = { accountId: sub, user: null };
    const fairness = { key: sub, weight: USUAL_WEIGHT };
    return {
      personId: sub,
      sessionId,
      email,
      projectId: null,
      role: null,
      roles,
      quotas: null,
      caller,
      fairness,
      expiresAt,
    };
  }

  #read(jtiHash: Uint8Array): Promise<KnownToken | null> {
    const key = Buffer.from(jtiHash).toString("latin1");
    const begun = this.#reading.get(key);
    if (begun) return begun;
    const reading = this.#store.tokens.findByJtiHash(jtiHash).finally(() => {
      if (this.#reading.get(key) === reading) this.#reading.delete(key);
    });
    this.#reading.set(key, reading);
    return reading;
  }

  /** In the background; after a failure the next judgement retries. */
  #noteUse(id: string, usedAt: number): void {
    this.#store.accounts.touchLastUsed({ id, usedAt }).catch(() => {});
  }
}

/** An end user's name may be long, and a key may not. */
function lineOf({ accountId, user }: RunCaller): string {
  return user === null ? accountId : `${accountId}/${hashSecret(user).toString("base64url")}`;
}

/** The limits of an account of role `call`; null if they are unknown, and then it may do nothing. */
export function storedLimits({ callLimits }: Pick<ServiceAccount, "callLimits">): CallLimits | null {
  return callLimits === null ? null : (JSON.parse(callLimits) as CallLimits);
}

/** The stored hash of a random secret; it needs no salt. */
export function hashSecret(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}
