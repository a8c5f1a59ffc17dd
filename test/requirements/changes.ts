import { section } from "./row.ts";

/** What services that share a Postgres tell each other, and how each holds on to it. */
export const CHANGES = {
  ...section("docs/decisions/0034-nodes.md", {
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
  ...section("docs/operations.md: Postgres", {
    "pooler.transactions":
      "Every call works by a pooler that lends sessions for a transaction, old ones included.",
    "pooler.limits": "By a pooler, too, the server gives up a statement that takes too long.",
    "pooler.hints": "A pooler that carries no notifications costs the hint and nothing else.",
    "pooler.service": "A service runs on a database that it reaches by a pooler alone.",
    "pooler.statements":
      "No prepared statement is taken for another, and a lost or outdated one is prepared anew.",
    "upgrade.beside":
      "One service migrates while others serve; who has to wait says so, and no table is waited for long.",
    "upgrade.additive":
      "A migration only adds; one that takes away says from which release on the database serves.",
    "upgrade.ahead":
      "On Postgres a service starts on a later schema that still serves its release, and on no other.",
    "upgrade.release-before":
      "A service of the release before goes on while the database is migrated under it.",
    "lease.always-tried": "A lease is renewed, or tried to be, also while the database counts as silent.",
  }),
};
