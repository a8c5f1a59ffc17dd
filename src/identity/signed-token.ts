import { randomUUID } from "node:crypto";
import { SignJWT, errors, jwtVerify } from "jose";
import type { JWTVerifyGetKey } from "jose";
import type { Clock } from "../kit/clock.ts";
import type { KeyRing } from "./key-ring.ts";

const ALGORITHM = "EdDSA";
const TYPE = "JWT";
const MAX_TOKEN_CHARS = 8192;
/** Three parts, the last an Ed25519 signature in its one spelling: the decoder would take sixteen. */
const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]{85}[AQgw]$/;
const CLOCK_SKEW_SECONDS = 60;

/** What a token says that was signed here. */
export type Claims = {
  /** A service account or a person. */
  readonly sub: string;
  readonly jti: string;
  /** Epoch seconds. */
  readonly exp: number;
  /** The session of a person's token; an account's has none. */
  readonly sid?: string;
};

type NewToken = {
  readonly subject: string;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
  readonly claims: Readonly<Record<string, string>>;
};

/** Writes tokens and reads them back. What a token may do is for others to judge. */
export class TokenSigner {
  readonly keys: KeyRing;
  /** `iss` and `aud`: fixed at the first start, so that a new public address voids nothing. */
  readonly #instanceId: string;
  readonly #clock: Clock;

  constructor(keys: KeyRing, instanceId: string, clock: Clock) {
    this.keys = keys;
    this.#instanceId = instanceId;
    this.#clock = clock;
  }

  async sign({ subject, expiresAt, claims }: NewToken): Promise<{ token: string; jti: string }> {
    const { id, privateKey } = this.keys.signingKey;
    const jti = randomUUID();
    const token = await new SignJWT({ ...claims })
      .setProtectedHeader({ alg: ALGORITHM, kid: id, typ: TYPE })
      .setIssuer(this.#instanceId)
      .setAudience(this.#instanceId)
      .setSubject(subject)
      .setJti(jti)
      .setIssuedAt(Math.floor(this.#clock.now() / 1000))
      // Upwards: a record decides to the millisecond, and is not to outlive its token.
      .setExpirationTime(Math.ceil(expiresAt / 1000))
      .sign(privateKey);
    return { token, jti };
  }

  /** Null for a token that was not signed here, or is not of this time; other failures are thrown. */
  async read(token: string): Promise<Claims | null> {
    if (token.length > MAX_TOKEN_CHARS || !COMPACT.test(token)) return null;
    const nowMs = this.#clock.now();
    const findKey: JWTVerifyGetKey = async ({ kid }) => {
      const key = await this.keys.publicKey(kid);
      if (!key) throw new errors.JWKSNoMatchingKey();
      return key;
    };
    try {
      const { payload } = await jwtVerify(token, findKey, {
        algorithms: [ALGORITHM],
        typ: TYPE,
        issuer: this.#instanceId,
        audience: this.#instanceId,
        requiredClaims: ["exp", "jti", "sub"],
        clockTolerance: CLOCK_SKEW_SECONDS,
        currentDate: new Date(nowMs),
      });
      const { sub, jti, exp, iat = 0, sid } = payload;
      if (iat > nowMs / 1000 + CLOCK_SKEW_SECONDS || !sub || !jti || !exp) return null;
      return { sub, jti, exp, ...(typeof sid === "string" && { sid }) };
    } catch (error) {
      if (error instanceof errors.JOSEError) return null;
      throw error;
    }
  }
}
