import type { RememberedToken } from "../identity/tokens.ts";
import { AppError } from "../model/errors.ts";
import { type Fairness, USUAL_WEIGHT } from "../model/queue-limits.ts";
import { MAX_QUEUE_KEY_CHARS } from "../model/terms.ts";
import type { RequestHead } from "./request-head.ts";

const HEADER = "X-Millrace-Fairness-Key";
const VISIBLE = /^[!-~]+$/;
/** The lines of service accounts, people and their end users begin with such an id. */
const ACCOUNT = /^(?:sa|u)-[0-9a-f]{8}-/;

/**
 * In whose line a call waits: that of its caller, or the one that its header names; null for a caller without a token.
 * A token of role `call` may be public: with many names, its holder would have as many turns.
 */
export function fairnessOf(
  { fairnessKey: key }: Pick<RequestHead, "fairnessKey">,
  token: RememberedToken | null,
): Fairness | null {
  const own = token && token.principal.fairness;
  if (key === null) return own;
  if (!own || token?.principal.role === "call") {
    const message = `${HEADER} may be set only with the token of a person, or of a service account of role run, deploy or admin.`;
    throw new AppError("forbidden", { message });
  }
  if (!VISIBLE.test(key) || key.length > MAX_QUEUE_KEY_CHARS) {
    const message = `${HEADER} must have 1 to ${MAX_QUEUE_KEY_CHARS} visible ASCII characters.`;
    throw new AppError("bad_request", { message });
  }
  if (ACCOUNT.test(key)) {
    const message = `${HEADER} names a line of your own; it must not begin like the id of an account.`;
    throw new AppError("bad_request", { message });
  }
  return { key, weight: USUAL_WEIGHT };
}

/** What is stored of it with an async run: nothing if it waits in the line of its account. */
export function storedKey(fairness: Fairness | null, token: RememberedToken | null): string | null {
  if (!fairness || fairness.key === token?.principal.caller.accountId) return null;
  return fairness.key;
}
