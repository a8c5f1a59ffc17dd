import type { RetryConfig } from "./app-config.ts";
import type { Outcome } from "./outcome.ts";

/** What a run may be retried on, besides the names of exceptions. */
export const RETRY_CAUSES = ["crash", "error", "timeout"] as const;
const WORDS: readonly string[] = RETRY_CAUSES;

/** What an app says about further attempts of its async runs. */
type RetryRules = {
  readonly retry?: RetryConfig;
  readonly scaling: { readonly maxAttempts: number };
};

/** How often an async run of the app may begin. */
export function maxAttempts({ retry, scaling }: RetryRules): number {
  return retry?.maxAttempts ?? scaling.maxAttempts;
}

/** In how many milliseconds an attempt follows one that ended so; null if none does. `random` is from 0 to 1. */
export function retryDelayMs(
  rules: RetryRules,
  attempt: number,
  outcome: Outcome,
  random: number,
  most = maxAttempts(rules),
): number | null {
  const { retry } = rules;
  if (attempt >= most) return null;
  if (!retry) return outcome.kind === "died" ? 0 : null;
  if (!causesOf(outcome).some((cause) => retry.on.includes(cause))) return null;
  if (outcome.kind === "raised" && outcome.retryAfterMs !== null) return outcome.retryAfterMs;
  const { initialDelaySeconds, backoff, maxDelaySeconds, jitter } = retry;
  const seconds = Math.min(initialDelaySeconds * backoff ** (attempt - 1), maxDelaySeconds);
  // Only ever shorter: no wait is longer than `max_delay`.
  return Math.round(seconds * 1000 * (1 - jitter * random));
}

/** The words of `on` that mean such an outcome; none if another attempt would not change it. */
function causesOf(outcome: Outcome): readonly string[] {
  switch (outcome.kind) {
    case "died":
      return ["crash"];
    case "timed_out":
      return ["timeout"];
    case "raised": {
      if (outcome.isForGood) return [];
      // A class may have the name of another cause: before Python 3.10, `socket.timeout` has.
      const names = outcome.types.filter((name) => !WORDS.includes(name));
      return [...(outcome.code === "out_of_memory" ? ["crash"] : []), "error", ...names];
    }
    case "broken":
      return ["error"];
    case "responded":
      return outcome.status >= 500 ? ["error"] : [];
    default:
      return [];
  }
}
