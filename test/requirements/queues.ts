import { section } from "./row.ts";

/** Async runs that wait, and that are tried again. */
export const QUEUES = {
  ...section("docs/queues.md: Attempts", {
    "retry.on": "An async run is tried again after what `retry.on` names: a crash, a timeout, exceptions.",
    "retry.delays":
      "Attempts wait for `initial_delay`, and longer each time, up to `max_delay`, with jitter.",
    "retry.after": "An exception with `retry_after` sets the wait before the next attempt.",
    "retry.no-retry": "`millrace.NoRetry` ends a run without a further attempt.",
    "retry.attempts": "The record of a run has each of its attempts, with times and error.",
    "retry.durable": "A run that waits for its next attempt outlives its service.",
    "retry.cancel": "A run that waits for its next attempt can be cancelled.",
    "retry.deleted": "A run that waits for its next attempt ends with its app.",
    "retry.config": "`[retry]` is checked, and comes before `scaling.max_attempts`.",
  }),
};
