import type { RetryConfig } from "./app-config.ts";
import type { Outcome } from "./outcome.ts";

/** What a run may be retried on, besides the names of exceptions. */
export const RETRY_CAUSES = ["crash", "error", "timeout"] as const;

/** How often an async run may begin, and when it begins again. */
export type RetryRules = RetryConfig & { readonly maxAttempts: number };

/** An app without the table starts a run that crashed again at once. */
const PLAIN: Omit<RetryRules, "maxAttempts"> = {
  initialDelaySeconds: 0,
  backoff: 1,
  maxDelaySeconds: 0,
  jitter: 0,
  on: ["crash"],
};

/** The rules of an app; `maxAttempts` of its table comes before that of its scaling. */
export function retryRules(app: {
  readonly retry?: RetryConfig;
  readonly scaling: { readonly maxAttempts: number };
}): RetryRules {
  const { retry, scaling } = app;
  return { ...PLAIN, ...retry, maxAttempts: retry?.maxAttempts ?? scaling.maxAttempts };
}

/** In how many milliseconds a run begins again whose attempt ended so; null if that was its end. `random` is from 0 to 1. */
export function retryDelayMs(
  rules: RetryRules,
  attempt: number,
  outcome: Outcome,
  random: number,
): number | null {
  if (attempt >= rules.maxAttempts || !causesOf(outcome).some((cause) => rules.on.includes(cause)))
    return null;
  if (outcome.kind === "raised" && outcome.retryAfterMs !== null) return outcome.retryAfterMs;
  const { initialDelaySeconds, backoff, maxDelaySeconds, jitter } = rules;
  const seconds = Math.min(initialDelaySeconds * backoff ** (attempt - 1), maxDelaySeconds);
  return Math.round(seconds * 1000 * (1 + jitter * (2 * random - 1)));
}

/** By what names the rules may mean an end; none for one that would be the same again. */
function causesOf(outcome: Outcome): readonly string[] {
  switch (outcome.kind) {
    case "died":
      return ["crash"];
    case "timed_out":
      return ["timeout"];
    case "raised":
      if (outcome.isForGood) return [];
      return [...(outcome.code === "out_of_memory" ? ["crash"] : []), "error", ...outcome.types];
    case "broken":
      return ["error"];
    case "responded":
      return outcome.status >= 500 ? ["error"] : [];
    default:
      return [];
  }
}
