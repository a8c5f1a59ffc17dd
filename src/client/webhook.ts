import { MillraceError } from "./errors.ts";

/** A request as a webhook receiver gets it. */
export type ReceivedWebhook = {
  /** The project's `whsec_…`, the `X-Webhook-Secret` of your call, or several of them while they change. */
  readonly secret: string | readonly string[];
  readonly headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The body as it came, before anything read it as JSON. */
  readonly body: string | Uint8Array;
  /** How far the sender's clock and yours may be apart (default: 300). */
  readonly toleranceSeconds?: number;
  /** Epoch milliseconds. */
  readonly now?: number;
};

/** A delivery that is genuine. */
export type Delivery = {
  /** The same at each attempt: remember it, and ignore what you have seen. */
  readonly runId: string;
  /** The HTTP status that a sync caller would have got. */
  readonly runStatus: number | null;
  readonly sentAt: Date;
};

/** A request that was not signed with the secret, or an old one sent again. */
export class InvalidWebhook extends MillraceError {}

const PREFIX = "whsec_";
/** More would only cost time. */
const MAX_SIGNATURES = 32;
const ALGORITHM = { name: "HMAC", hash: "SHA-256" };

type Form = {
  readonly timestamp: string;
  readonly signatures: string;
  /** The key of a secret; null if the secret is not for this form. */
  key(secret: string): Uint8Array<ArrayBuffer> | null;
  decode(signature: string): Uint8Array<ArrayBuffer> | null;
};

const FORMS: readonly Form[] = [
  {
    timestamp: "webhook-timestamp",
    signatures: "webhook-signature",
    key: (secret) => (secret.startsWith(PREFIX) ? fromBase64(secret.slice(PREFIX.length)) : null),
    decode: fromBase64,
  },
  {
    timestamp: "x-cerebrium-webhook-timestamp",
    signatures: "x-cerebrium-webhook-signature",
    key: (secret) => new TextEncoder().encode(secret),
    decode: fromHex,
  },
];

/** Resolves if the request was signed recently with one of the secrets; throws `InvalidWebhook` if not. */
export async function verifyWebhook(received: ReceivedWebhook): Promise<Delivery> {
  const { secret, headers, toleranceSeconds = 300, now = Date.now() } = received;
  const secrets = typeof secret === "string" ? [secret] : secret;
  if (secrets.length === 0 || secrets.includes(""))
    throw new Error("Give at least one secret; none may be empty.");
  const runId = header(headers, "webhook-id") ?? header(headers, "x-request-id");
  if (!runId) throw invalid("it has no webhook-id header.");
  let fault = "no signature matches the secret.";
  for (const form of FORMS) {
    const timestamp = header(headers, form.timestamp) ?? "";
    if (!/^\d{1,12}$/.test(timestamp)) continue;
    const sentAt = Number(timestamp) * 1000;
    if (!(await isSigned(received, form, secrets, `${runId}.${timestamp}.`))) continue;
    if (Math.abs(now - sentAt) <= toleranceSeconds * 1000) {
      const runStatus = header(headers, "x-millrace-run-status");
      return { runId, runStatus: runStatus ? Number(runStatus) : null, sentAt: new Date(sentAt) };
    }
    fault = "its timestamp is too far from the current time.";
  }
  throw invalid(fault);
}

async function isSigned(
  { headers, body }: ReceivedWebhook,
  form: Form,
  secrets: readonly string[],
  prefix: string,
): Promise<boolean> {
  const entries = (header(headers, form.signatures) ?? "").split(" ").slice(0, MAX_SIGNATURES);
  const signatures = entries.flatMap((entry) => {
    const bytes = entry.startsWith("v1,") ? form.decode(entry.slice(3)) : null;
    return bytes ? [bytes] : [];
  });
  if (signatures.length === 0) return false;
  const encoder = new TextEncoder();
  const signed = joined(encoder.encode(prefix), typeof body === "string" ? encoder.encode(body) : body);
  for (const secret of secrets) {
    const raw = form.key(secret);
    if (!raw || raw.length === 0) continue;
    const key = await crypto.subtle.importKey("raw", raw, ALGORITHM, false, ["verify"]);
    // `verify` takes the same time wherever two signatures differ.
    for (const signature of signatures) {
      if (await crypto.subtle.verify("HMAC", key, signature, signed)) return true;
    }
  }
  return false;
}

function header(headers: ReceivedWebhook["headers"], name: string): string | null {
  if (headers instanceof Headers) return headers.get(name);
  const found = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  return typeof found === "string" ? found : (found?.join(" ") ?? null);
}

function invalid(fault: string): InvalidWebhook {
  return new InvalidWebhook({ code: "invalid_webhook", message: `The webhook is not genuine: ${fault}` });
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(first.length + second.length);
  all.set(first);
  all.set(second, first.length);
  return all;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    return null;
  }
}

function fromHex(text: string): Uint8Array<ArrayBuffer> | null {
  if (!/^(?:[0-9a-f]{2})+$/i.test(text)) return null;
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
