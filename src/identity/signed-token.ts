import { randomUUID, sign, verify } from "node:crypto";
import type { KeyObject } from "node:crypto";
import type { Clock } from "../kit/clock.ts";
import type { KeyRing } from "./key-ring.ts";

const ALGORITHM = "EdDSA";
const TYPE = "JWT";
/** How a header may spell that type, in small letters. */
const TYPES: ReadonlySet<string> = new Set(["jwt", "application/jwt"]);
const MAX_TOKEN_CHARS = 8192;
/** Three parts, the last an Ed25519 signature in its one spelling: the decoder would take sixteen. */
const COMPACT = /^([\w-]+)\.([\w-]+)\.([\w-]{85}[AQgw])$/;
const CLOCK_SKEW_SECONDS = 60;
const UTF8 = new TextDecoder("utf-8", { fatal: true });

/** What a token says that was signed here. */
export type Claims = {
  /** A service account or a person. */
  readonly sub: string;
  readonly jti: string;
  /** Epoch seconds. */
  readonly exp: number;
  /** The session of a person's token; an account's has none. */
  readonly sid?: string;
  /** Of an end user's token. */
  readonly endUser?: EndUser;
};

/** Whom an account's token was made for. */
type EndUser = {
  readonly user: string;
  /** The hash of the account's own token, as it is stored: this one ends with it. */
  readonly parentHash: Uint8Array;
};

/** A token whose signature was found good. */
export type Reading = {
  readonly claims: Claims;
  readonly keyId: string;
  readonly key: KeyObject;
  /** All it says. */
  readonly payload: JsonObject;
};

type NewToken = {
  readonly subject: string;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
  readonly claims: Readonly<Record<string, string>>;
};

type JsonObject = Readonly<Record<string, unknown>>;

/**
 * Writes tokens and reads them back. What a token may do is for others to judge. Signatures are made and checked on
 * this very thread: Node's other threads may all be waiting for a disk that hangs, and a token must not wait with them.
 */
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

  sign({ subject, expiresAt, claims }: NewToken): { token: string; jti: string } {
    const { id, privateKey } = this.keys.signingKey;
    const jti = randomUUID();
    const payload = {
      ...claims,
      iss: this.#instanceId,
      aud: this.#instanceId,
      sub: subject,
      jti,
      iat: Math.floor(this.#clock.now() / 1000),
      // Rounded up: the record decides to the millisecond, and must not outlive its token.
      exp: Math.ceil(expiresAt / 1000),
    };
    const signed = `${encode({ alg: ALGORITHM, kid: id, typ: TYPE })}.${encode(payload)}`;
    const signature = sign(null, Buffer.from(signed), privateKey);
    return { token: `${signed}.${signature.toString("base64url")}`, jti };
  }

  /**
   * Null for a token that was not signed here, or is not of this time; other failures are thrown. What was read of the
   * same token `before` saves checking the signature, the expensive part, while the key is the same.
   */
  async read(token: string, before: Reading | null = null): Promise<Reading | null> {
    if (token.length > MAX_TOKEN_CHARS) return null;
    const [, head = "", body = "", signature = ""] = COMPACT.exec(token) ?? [];
    const keyId = before?.keyId ?? keyIdOf(decode(head));
    const key = keyId === null ? null : await this.keys.publicKey(keyId);
    if (keyId === null || !key) return null;
    if (before?.key === key) return isOfNow(before.payload, this.#clock.now()) ? before : null;
    const signed = Buffer.from(token.slice(0, head.length + 1 + body.length));
    // Nothing of the body counts, or is even read, before this.
    if (!verify(null, signed, key, Buffer.from(signature, "base64url"))) return null;
    const payload = decode(body);
    if (!payload || !this.#isOfHere(payload) || !isOfNow(payload, this.#clock.now())) return null;
    const claims = claimsOf(payload);
    return claims && { claims, keyId, key, payload };
  }

  #isOfHere({ iss, aud }: JsonObject): boolean {
    const isForHere = aud === this.#instanceId || (Array.isArray(aud) && aud.includes(this.#instanceId));
    return iss === this.#instanceId && isForHere;
  }
}

/** The key that a header names; null for a header that is not one of ours. */
function keyIdOf(header: JsonObject | null): string | null {
  if (!header) return null;
  const { alg, kid, typ } = header;
  // An extension that must be understood: none is.
  if (Object.hasOwn(header, "crit")) return null;
  if (alg !== ALGORITHM || typeof typ !== "string" || !TYPES.has(typ.toLowerCase())) return null;
  return typeof kid === "string" ? kid : null;
}

function isOfNow({ exp, nbf, iat = 0 }: JsonObject, nowMs: number): boolean {
  const now = Math.floor(nowMs / 1000);
  if (typeof exp !== "number" || exp <= now - CLOCK_SKEW_SECONDS) return false;
  if (nbf !== undefined && !(typeof nbf === "number" && nbf <= now + CLOCK_SKEW_SECONDS)) return false;
  return typeof iat === "number" && iat <= nowMs / 1000 + CLOCK_SKEW_SECONDS;
}

function claimsOf({ sub, jti, exp, sid, user, parent }: JsonObject): Claims | null {
  if (typeof sub !== "string" || typeof jti !== "string" || typeof exp !== "number") return null;
  if (!sub || !jti || !exp) return null;
  const claims = { sub, jti, exp };
  if (typeof sid === "string") return { ...claims, sid };
  if (user === undefined && parent === undefined) return claims;
  if (typeof user !== "string" || typeof parent !== "string" || !user || !parent) return null;
  return { ...claims, endUser: { user, parentHash: Buffer.from(parent, "base64url") } };
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

/** The JSON object that a part holds; null where it holds none. */
function decode(part: string): JsonObject | null {
  // No bytes are spelled so; `Buffer` would drop the last letter.
  if (part.length % 4 === 1) return null;
  try {
    const value: unknown = JSON.parse(UTF8.decode(Buffer.from(part, "base64url")));
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as JsonObject)
      : null;
  } catch {
    return null;
  }
}
