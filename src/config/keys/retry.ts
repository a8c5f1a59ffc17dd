import type { RetryConfig } from "../../model/app-config.ts";
import { RETRY_CAUSES } from "../../model/retry.ts";
import { type AppKeys, decimal, duration, integer, key, listOf, matching, optional } from "../readers.ts";

/** Of an exception's class, with or without its module. */
const EXCEPTION_NAME = /^[\p{ID_Start}_][\p{ID_Continue}.]{0,255}$/u;
const MAX_CAUSES = 50;

const cause = matching("crash, error, timeout, or the name of an exception", (text) =>
  EXCEPTION_NAME.test(text),
);

/** The keys of `[retry]`. */
export const RETRY_KEYS: AppKeys<RetryConfig> = {
  maxAttempts: key("retry.max_attempts", null, optional(integer(1, 100))).describe(
    "How many times an async run is started in all. Default: `scaling.max_attempts`.",
  ),
  initialDelaySeconds: key("retry.initial_delay", null, duration("0s", "24h"), "1s").describe(
    "How long a run waits before its second attempt.",
  ),
  backoff: key("retry.backoff", null, decimal(1, 10), 2).describe(
    "By how much each wait is longer than the one before.",
  ),
  maxDelaySeconds: key("retry.max_delay", null, duration("0s", "24h"), "1h").describe(
    "The longest wait, before jitter.",
  ),
  jitter: key("retry.jitter", null, decimal(0, 1), 0.1).describe(
    "The part of each wait that is left to chance, so that runs that failed together do not come back together.",
  ),
  on: key(
    "retry.on",
    null,
    listOf(
      `a list of up to ${MAX_CAUSES} of ${RETRY_CAUSES.map((word) => `"${word}"`).join(", ")} and names of exceptions`,
      cause,
      MAX_CAUSES,
    ),
    ["crash"],
  ).describe(
    "What is retried: `crash` (the process died, or ran out of memory), `error` (any exception), `timeout`, or exceptions by name, such as `ConnectionError` or `httpx.ReadTimeout`, with their subclasses.",
  ),
};
