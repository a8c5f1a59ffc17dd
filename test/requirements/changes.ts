import { section } from "./row.ts";

/** What services that share a Postgres tell each other, and how each holds on to it. */
export const CHANGES = {
  ...section("issue: Many services, one installation, 3", {
    "changes.noted":
      "Whatever a service changes of what others remember is written down in the same transaction.",
    "changes.once": "No change is missed and none is read twice, however transactions overlap.",
    "changes.hint":
      "A change by one service is known to the others at once by a hint, without waiting for their next look.",
    "changes.poll": "Without any hint a change is found by a look once a second.",
    "changes.reset":
      "Who has not read for too long, or finds another server, is told that anything may have changed.",
    "changes.again": "Who could not act on a change is told of it again; nobody else waits for that.",
    "changes.pruned":
      "Changes are kept for ten minutes and removed in small steps, by one service at a time.",
    "changes.identity":
      "Revocations, roles, sessions and keys that one node changes count on every other within 1 s.",
    "changes.secrets":
      "Secrets of apps and of webhooks that one node changes are used by every other within 1 s.",
    "changes.line":
      "The connection that listens is made anew when it is lost, and when it no longer hears itself.",
  }),
};
