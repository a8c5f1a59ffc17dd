import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

const PREFIX = "whsec_";
const SECRET_BYTES = 32;

/** What a signature covers. */
export type Signable = {
  readonly id: string;
  readonly timestampSeconds: number;
  readonly body: Uint8Array;
};

/** A new signing secret in the form that Standard Webhooks libraries take. */
export function newSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString("base64");
}

/** The value of `webhook-signature`: an entry for each secret, so that a receiver may hold any of them. */
export function standardSignature(secrets: readonly string[], signable: Signable): string {
  return secrets.map((secret) => `v1,${hmac(keyOf(secret), signable).toString("base64")}`).join(" ");
}

/** The value of `X-Cerebrium-Webhook-Signature`, made with the secret that the caller of the run sent. */
export function callerSignature(secret: Uint8Array, signable: Signable): string {
  return `v1,${hmac(secret, signable).toString("hex")}`;
}

/** Whether one of the space-separated entries of a signature header is `expected`, in constant time. */
export function holdsSignature(header: string, expected: string): boolean {
  const wanted = Buffer.from(expected);
  return header.split(" ").some((entry) => {
    const given = Buffer.from(entry);
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  });
}

function keyOf(secret: string): Buffer {
  return Buffer.from(secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret, "base64");
}

function hmac(key: Uint8Array, { id, timestampSeconds, body }: Signable): Buffer {
  return createHmac("sha256", key).update(`${id}.${timestampSeconds}.`).update(body).digest();
}
