import { createHash, randomUUID } from "node:crypto";
import { SignJWT, errors, jwtVerify } from "jose";
import type { JWTVerifyGetKey } from "jose";
import { AppError } from "../model/errors.ts";
import type { Clock } from "../kit/clock.ts";
import type { Store } from "../store/store.ts";
import { ROLES } from "./principal.ts";
import type { Principal, Role } from "./principal.ts";
import type { TokenKey } from "./token-keys.ts";

const ALGORITHM = "EdDSA";
const TYPE = "JWT";
const MAX_TOKEN_CHARS = 8192;
/** Three parts, the last an Ed25519 signature in its one spelling: the decoder would take sixteen. */
const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]{85}[AQgw]$/;
const MAX_REMEMBERED = 10_000;
/** A token revoked by another process stops working within this time: no older judgement counts. */
const JUDGED_FOR_MS = 5_000;
/** From this age on a judgement is renewed in passing, so that a token in use never waits for one. */
const RECHECK_MS = 2_500;
const CLOCK_SKEW_SECONDS = 60;

/** A token that was found good. Whoever holds on to this must ask `isGood` before each use. */
export type RememberedToken = { readonly token: string; readonly principal: Principal };

type Remembered = {
  readonly token: string;
  principal: Principal;
  checkedAt: number;
  isRechecking: boolean;
  isVoid: boolean;
};

export type NewAccount = {
  readonly projectId: string;
  readonly name: string;
  readonly description?: string;
  readonly role: Role;
  readonly expiresAt: number;
};

/** Makes tokens and knows them again. A token is verified once, then remembered until it expires or is revoked. */
export class Tokens {
  readonly #store: Store;
  readonly #keys: readonly TokenKey[];
  /** `iss` and `aud`: fixed at the first start, so that a new public address voids nothing. */
  readonly #instanceId: string;
  readonly #clock: Clock;
  readonly #remembered = new Map<string, Remembered>();

  constructor(store: Store, keys: readonly TokenKey[], instanceId: string, clock: Clock) {
    this.#store = store;
    this.#keys = keys;
    this.#instanceId = instanceId;
    this.#clock = clock;
  }

  /** Creates a service account and returns its token, which is stored nowhere. */
  async issue(account: NewAccount): Promise<{ accountId: string; token: string }> {
    const [key] = this.#keys;
    if (!key) throw new Error("there is no key to sign with");
    const now = this.#clock.now();
    const accountId = `sa-${randomUUID()}`;
    const jti = randomUUID();
    const token = await new SignJWT({ project_id: account.projectId, role: account.role })
      .setProtectedHeader({ alg: ALGORITHM, kid: key.id, typ: TYPE })
      .setIssuer(this.#instanceId)
      .setAudience(this.#instanceId)
      .setSubject(accountId)
      .setJti(jti)
      .setIssuedAt(Math.floor(now / 1000))
      .setExpirationTime(Math.floor(account.expiresAt / 1000))
      .sign(key.privateKey);
    await this.#store.accounts.insert({
      account: {
        id: accountId,
        projectId: account.projectId,
        name: account.name,
        description: account.description ?? null,
        role: account.role,
        createdAt: now,
        expiresAt: account.expiresAt,
      },
      token: { jtiHash: hashJti(jti) },
    });
    return { accountId, token };
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
    const ageMs = now - known.checkedAt;
    if (known.isVoid || ageMs > JUDGED_FOR_MS) return false;
    if (ageMs > RECHECK_MS && !known.isRechecking) {
      known.isRechecking = true;
      void this.#recheck(known);
    }
    return true;
  }

  /** Verifies a token; throws `unauthorized`. */
  async verify(token: string): Promise<RememberedToken> {
    const judgedAt = this.#clock.now();
    const principal = await this.#judgeOrTrust(token);
    const known = this.#remembered.get(token);
    if (!principal) {
      if (known) this.#forget(known);
      throw new AppError("unauthorized", { message: "The token is invalid, expired or revoked." });
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

  /** Revokes an account; its tokens stop working here at once, elsewhere within 5 s. */
  async revoke(projectId: string, accountId: string): Promise<boolean> {
    const isRevoked = await this.#store.accounts.revoke({ id: accountId, projectId, now: this.#clock.now() });
    for (const remembered of this.#remembered.values()) {
      if (remembered.principal.accountId === accountId) this.#forget(remembered);
    }
    return isRevoked;
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
    const judgedAt = this.#clock.now();
    try {
      const principal = await this.#judge(known.token);
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
      return await this.#judge(token);
    } catch (error) {
      const known = this.#remembered.get(token);
      if (!known || this.#clock.now() >= known.principal.expiresAt) throw error;
      return known.principal;
    }
  }

  /** Null for a token that is not good; other failures are thrown. */
  async #judge(token: string): Promise<Principal | null> {
    if (token.length > MAX_TOKEN_CHARS || !COMPACT.test(token)) return null;
    const claims = await this.#readClaims(token);
    if (!claims?.jti || !claims.exp) return null;
    const known = await this.#store.tokens.findByJtiHash(hashJti(claims.jti));
    if (!known) return null;
    const { account, token: row } = known;
    const now = this.#clock.now();
    const isVoid = account.revokedAt !== null || row.revokedAt !== null;
    const expiresAt = Math.min(claims.exp * 1000, account.expiresAt, row.expiresAt);
    const role = ROLES.find((name) => name === account.role);
    if (isVoid || now >= expiresAt || !account.projectId || account.id !== claims.sub || !role) return null;
    // The row's role wins over the token's claim: a change takes effect without a new token.
    return { accountId: account.id, projectId: account.projectId, role, expiresAt };
  }

  async #readClaims(token: string): Promise<{ jti?: string; sub?: string; exp?: number } | null> {
    const findKey: JWTVerifyGetKey = (header) => {
      const key = this.#keys.find(({ id }) => id === header.kid);
      if (!key) throw new errors.JWKSNoMatchingKey();
      return key.publicKey;
    };
    try {
      const { payload } = await jwtVerify(token, findKey, {
        algorithms: [ALGORITHM],
        typ: TYPE,
        issuer: this.#instanceId,
        audience: this.#instanceId,
        requiredClaims: ["exp", "jti", "sub"],
        clockTolerance: CLOCK_SKEW_SECONDS,
        currentDate: new Date(this.#clock.now()),
      });
      return payload;
    } catch (error) {
      if (error instanceof errors.JOSEError) return null;
      throw error;
    }
  }
}

function hashJti(jti: string): Buffer {
  return createHash("sha256").update(jti).digest();
}
