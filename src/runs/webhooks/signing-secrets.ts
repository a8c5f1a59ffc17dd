import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { Delivery } from "../../model/delivery.ts";
import type { TraceHeaders } from "../../model/trace.ts";
import type { Changes } from "../../nodes/changes.ts";
import type { Clock } from "../../kit/clock.ts";
import { randomName } from "../../kit/ids.ts";
import type { Seal } from "../../kit/seal.ts";
import type { Store } from "../../store/store.ts";

const PREFIX = "whsec_";
const SECRET_BYTES = 32;

type Signable = { readonly id: string; readonly timestampSeconds: number; readonly body: Uint8Array };

/** A new signing secret in the form of Standard Webhooks libraries. */
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

type Signing = {
  /** The project's active ones. */
  readonly secrets: readonly string[];
  readonly callerSecret: Uint8Array | null;
  readonly timestampSeconds: number;
  /** Null if the run belongs to none. */
  readonly trace: TraceHeaders | null;
};

/** The headers of one attempt; they are recorded as they are sent. */
export function deliveryHeaders(
  { id, contentType, runStatus }: Delivery,
  body: Uint8Array,
  { secrets, callerSecret, timestampSeconds, trace }: Signing,
): Record<string, string> {
  const signable = { id, timestampSeconds, body };
  return {
    ...(contentType !== null && { "content-type": contentType }),
    "content-length": String(body.byteLength),
    "user-agent": "Millrace-Webhooks",
    "x-request-id": id,
    "x-millrace-run-status": String(runStatus),
    "webhook-id": id,
    "webhook-timestamp": String(timestampSeconds),
    "webhook-signature": standardSignature(secrets, signable),
    ...(callerSecret !== null && {
      "x-cerebrium-webhook-timestamp": String(timestampSeconds),
      "x-cerebrium-webhook-signature": callerSignature(callerSecret, signable),
    }),
    ...(trace && { traceparent: trace.traceparent }),
    ...(trace && trace.tracestate !== null && { tracestate: trace.tracestate }),
  };
}

/** Applies signing secrets that another node made or removed, within a second. */
export function followSigningSecrets(
  changes: Pick<Changes, "on" | "onReset">,
  secrets: Pick<SigningSecrets, "forget">,
): void {
  changes.on("webhook-secrets", (projectIds) => {
    for (const projectId of projectIds) secrets.forget(projectId);
  });
  changes.onReset(() => secrets.forget(null));
}

type SecretParts = { readonly store: Store; readonly seal: Seal; readonly clock: Clock };

/** A signing secret as its maker sees it, once. */
type MadeSecret = { readonly id: string; readonly createdAt: number; readonly secret: string };

/** A secret was sealed with another master key than this service has. */
export class SecretUnreadable extends Error {
  constructor(context: string, cause: unknown) {
    super(`${context} cannot be decrypted; was it sealed with another master key?`, { cause });
    this.name = "SecretUnreadable";
  }
}

/** Opens a secret of a webhook; throws `SecretUnreadable` if it was sealed with another master key. */
export function openSecret(seal: Seal, sealed: Uint8Array, context: string): Buffer {
  try {
    return seal.open(sealed, context);
  } catch (error) {
    throw new SecretUnreadable(context, error);
  }
}

/** Without a notification, a change by another service is noticed within this time. */
const KNOWN_MS = 5_000;

/** The secrets that a project's deliveries are signed with; stored sealed. */
export class SigningSecrets {
  readonly #parts: SecretParts;
  readonly #known = new Map<string, { readonly secrets: Promise<string[]>; readonly until: number }>();

  constructor(parts: SecretParts) {
    this.#parts = parts;
  }

  /** Those in use now, oldest first; a project's first one is made when it is needed. */
  async active(projectId: string): Promise<readonly string[]> {
    const now = this.#parts.clock.monotonic();
    const known = this.#known.get(projectId);
    if (known && known.until > now) return await known.secrets;
    for (const [id, { until }] of this.#known) if (until <= now) this.#known.delete(id);
    const secrets = this.#read(projectId);
    this.#known.set(projectId, { secrets, until: now + KNOWN_MS });
    try {
      return await secrets;
    } catch (error) {
      this.#known.delete(projectId); // The next one asks the store again.
      throw error;
    }
  }

  /** Makes one; from now on every delivery carries its signature too. */
  async make(projectId: string): Promise<MadeSecret> {
    const id = `whs-${randomName(8)}`;
    const createdAt = this.#parts.clock.now();
    const secret = newSecret();
    const sealedSecret = this.#parts.seal.close(Buffer.from(secret), contextOf(id));
    await this.#parts.store.webhookSecrets.insert({ id, projectId, sealedSecret, createdAt });
    this.#known.delete(projectId);
    return { id, createdAt, secret };
  }

  /** Ends the use of one; false when the project has no such secret in use. */
  async retire(projectId: string, id: string): Promise<boolean> {
    const { store, clock } = this.#parts;
    const isRetired = await store.webhookSecrets.retire({ id, projectId, now: clock.now() });
    this.#known.delete(projectId);
    return isRetired;
  }

  /** Another service has changed some, with null of any project. */
  forget(projectId: string | null): void {
    if (projectId === null) this.#known.clear();
    else this.#known.delete(projectId);
  }

  async #read(projectId: string): Promise<string[]> {
    const rows = await this.#parts.store.webhookSecrets.list(projectId);
    const active = rows.filter(({ retiredAt }) => retiredAt === null);
    active.sort((a, b) => a.createdAt - b.createdAt);
    if (active.length === 0) return [(await this.make(projectId)).secret];
    return active.map(({ id, sealedSecret }) =>
      openSecret(this.#parts.seal, sealedSecret, contextOf(id)).toString(),
    );
  }
}

function contextOf(id: string): string {
  return `webhook_secrets.${id}`;
}
