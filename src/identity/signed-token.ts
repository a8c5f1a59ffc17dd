import { type KeyObject, randomUUID, sign, verify } from "node:crypto";
import type { Clock } from "../kit/clock.ts";
import type { KeyRing } from "./key-ring.ts";

const ALGORITHM = "EdDSA";
const TYPE = "JWT";
/** The accepted values of `typ`, in lower case. */
const TYPES: ReadonlySet<string> = new Set(["jwt", "application/jwt"]);
const MAX_TOKEN_CHARS = 8192;
/** Three parts, the last an Ed25519 signature in its canonical encoding: the decoder would accept 16 variants. */
const COMPACT = /^([\w-]+)\.([\w-]+)\.([\w-]{85}[AQgw])$/;
const CLOCK_SKEW_SECONDS = 60;
const UTF8 = new TextDecoder("utf-8", { fatal: true });

/** The claims of a token that was signed here. */
export type Claims = {
  /** A service account or a person. */
  readonly sub: string;
  readonly jti: string;
  /** Epoch seconds. */
  readonly exp: number;
  /** The session, in a person's token. */
  readonly sid?: string;
  /** In an end user's token; `parentHash`: the stored hash of the account's own token, with which this one ends. */
  readonly endUser?: { readonly user: string; readonly parentHash: Uint8Array };
};

/** A token with a valid signature. */
export type Reading = {
  readonly claims: Claims;
  readonly keyId: string;
  readonly key: KeyObject;
  readonly payload: JsonObject;
};

type JsonObject = Readonly<Record<string, unknown>>;

/**
 * Signs tokens and verifies signatures; `TokenJudge` decides what a token may do. Signatures are made and checked on the
 * main thread, because all of Node's other threads may be waiting for a disk that hangs.
 */
export class TokenSigner {
  readonly keys: KeyRing;
  /** `iss` and `aud`: fixed at the first start, so that tokens survive a new public address. */
  readonly #instanceId: string;
  readonly #clock: Clock;

  constructor(keys: KeyRing, instanceId: string, clock: Clock) {
    this.keys = keys;
    this.#instanceId = instanceId;
    this.#clock = clock;
  }

  /** `expiresAt`: in epoch milliseconds. */
  sign(subject: string, expiresAt: number, claims: Readonly<Record<string, string>>) {
    const { id, privateKey } = this.keys.signingKey;
    const jti = randomUUID();
    const payload = {
      ...claims,
      iss: this.#instanceId,
      aud: this.#instanceId,
      sub: subject,
      jti,
      iat: Math.floor(this.#clock.now() / 1000),
      // Rounded up: the stored expiry is exact, and must not be later than the token's.
      exp: Math.ceil(expiresAt / 1000),
    };
    const signed = `${encode({ alg: ALGORITHM, kid: id, typ: TYPE })}.${encode(payload)}`;
    const signature = sign(null, Buffer.from(signed), privateKey);
    return { token: `${signed}.${signature.toString("base64url")}`, jti };
  }

  /**
   * Null for a token that was not signed here, has expired or is not valid yet; other failures are thrown. With the reading
   * of the same token `before`, the signature is not checked again while the key is the same.
   */
  async read(token: string, before: Reading | null = null): Promise<Reading | null> {
    if (token.length > MAX_TOKEN_CHARS) return null;
    const [, head = "", body = "", signature = ""] = COMPACT.exec(token) ?? [];
    const keyId = before?.keyId ?? keyIdOf(decode(head));
    const key = keyId === null ? null : await this.keys.publicKey(keyId);
    if (keyId === null || !key) return null;
    if (before?.key === key) return isOfNow(before.payload, this.#clock.now()) ? before : null;
    const signed = Buffer.from(token.slice(0, head.length + 1 + body.length));
    // The body is not even parsed before this.
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

/** The key id in a header; null for a header that is not ours. */
function keyIdOf(header: JsonObject | null): string | null {
  if (!header) return null;
  const { alg, kid, typ } = header;
  // No extensions are supported.
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

function decode(part: string): JsonObject | null {
  // Not valid base64url; `Buffer` would drop the last letter.
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
