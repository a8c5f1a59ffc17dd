import { createHash } from "node:crypto";
import type { Clock } from "../kit/clock.ts";
import type { Store } from "../store/store.ts";
import { ROLES } from "../model/roles.ts";
import { ROLE_OF_MEMBER } from "./principal.ts";
import type { AccountPrincipal, PersonPrincipal, Principal } from "./principal.ts";
import type { Claims } from "./signed-token.ts";

/** The use of an account is recorded at most this often. */
const USE_NOTED_EVERY_MS = 60_000;

/** Says what a signed token may do now, by what the database holds. */
export class TokenJudge {
  readonly #store: Store;
  readonly #clock: Clock;

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Null for a token that is no longer good. */
  async judge(claims: Claims): Promise<Principal | null> {
    return claims.sid === undefined
      ? await this.#judgeAccount(claims)
      : await this.#judgePerson(claims, claims.sid);
  }

  async #judgeAccount({ sub, jti, exp }: Claims): Promise<AccountPrincipal | null> {
    const known = await this.#store.tokens.findByJtiHash(hashSecret(jti));
    if (!known) return null;
    const { account, token } = known;
    const now = this.#clock.now();
    const isVoid = account.revokedAt !== null || token.revokedAt !== null;
    const expiresAt = Math.min(exp * 1000, account.expiresAt, token.expiresAt);
    const role = ROLES.find((name) => name === account.role);
    if (isVoid || now >= expiresAt || !account.projectId || account.id !== sub || !role) return null;
    if (now - (account.lastUsedAt ?? 0) >= USE_NOTED_EVERY_MS) this.#noteUse(account.id, now);
    // The row's role wins over the token's claim: a change takes effect without a new token.
    return { accountId: account.id, projectId: account.projectId, role, expiresAt };
  }

  async #judgePerson({ sub, exp }: Claims, sessionId: string): Promise<PersonPrincipal | null> {
    const known = await this.#store.sessions.find(sessionId);
    if (known?.session.personId !== sub) return null;
    const { email, memberships, session } = known;
    const expiresAt = Math.min(exp * 1000, session.expiresAt);
    if (this.#clock.now() >= expiresAt) return null;
    const roles = new Map(memberships.map(({ projectId, role }) => [projectId, ROLE_OF_MEMBER[role]]));
    return { personId: sub, sessionId, email, projectId: null, role: null, roles, expiresAt };
  }

  /** Nobody waits for it, and where it fails the next judgement tries again. */
  #noteUse(id: string, usedAt: number): void {
    this.#store.accounts.touchLastUsed({ id, usedAt }).catch(() => {});
  }
}

/** What is stored of a secret that is random enough to need no more. */
export function hashSecret(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}
