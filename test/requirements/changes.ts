import { section } from "./row.ts";

/** What services that share a Postgres tell each other, and how each holds on to it. */
export const CHANGES = {
  ...section("docs/decisions/0034-nodes.md", {
    "changes.once":
      "No change that one service makes is missed by the others, whatever overlaps, fails or comes late.",
    "changes.hint":
      "Other services learn of a change at once, or within a second if the connection that tells it is lost.",
    "changes.pruned":
      "Changes are kept for ten minutes and removed in small steps, by one service at a time.",
    "changes.identity":
      "Revocations, roles, sessions and keys that one node changes count on every other within 1 s.",
    "changes.secrets":
      "Secrets of apps and of webhooks that one node changes are used by every other within 1 s.",
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
      "One service migrates while others serve; one that has to wait logs it, and no table is locked for long.",
    "upgrade.additive":
      "A migration only adds; one that takes away says from which release on the database serves.",
    "upgrade.ahead":
      "On Postgres a service starts on a later schema that still serves its release, and on no other.",
    "upgrade.release-before":
      "A service of the release before goes on while the database is migrated under it.",
  }),
};
