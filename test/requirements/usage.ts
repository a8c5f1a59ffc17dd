import { section } from "./row.ts";

/** What calls used, and what they may use. */
export const USAGE = {
  ...section("docs/usage.md: What is counted", {
    "usage.sum": "The usage of a day is the sum of the recorded runs that ended on it.",
    "usage.once": "A run is counted once, however often its end is written.",
    "usage.async":
      "Attempts after which a run was tried again are counted, and runs that ended in the queue.",
    "usage.kills": "That holds through kills of the service.",
    "usage.nodes": "That holds with several nodes that write at the same time.",
    "usage.tokens": "Tokens are counted where an answer in OpenAI's form says them.",
    "usage.replicas": "What replicas use is measured by app and day.",
    "usage.tags": "The tags that an app may have on one day are bounded.",
    "usage.kept": "Usage is kept for 400 days, longer than the records of runs.",
  }),
  ...section("docs/usage.md: Asking for it", {
    "usage.groups":
      "Usage is added up by day, app, token or tag, or several of them, of a project or a part of it.",
    "usage.bounds": "What cannot be answered is refused, with the reason.",
    "usage.csv": "Usage is given as CSV, by `Accept` or `format=csv`, and no text of it is a formula.",
    "usage.cli": "`millrace usage` prints usage as a table, CSV or JSON.",
    "usage.page": "The dashboard's page Usage shows it by day, and saves it as CSV.",
  }),
  ...section("docs/usage.md: Quotas", {
    "quota.calls": "A service account may make so many calls in any minute.",
    "quota.concurrent": "It may have so many runs in progress at a time.",
    "quota.gpu": "It may use so many GPU seconds a day.",
    "quota.project": "The same of a project, for all its calls together.",
    "quota.headers": "A call over a quota gets 429, `Retry-After`, `RateLimit` and `RateLimit-Policy`.",
    "quota.set": "Quotas are set and shown by the API and the command line.",
    "quota.free": "Calls of tokens and projects without quotas are not looked at.",
  }),
  ...section("docs/usage.md: How exact quotas are", {
    "quota.nodes": "On several nodes, little more than the quota is admitted.",
  }),
} as const;
