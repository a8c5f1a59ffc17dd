import { section } from "./row.ts";

/** What keeps the service up, and one project's load off the others. */
export const LIMITS = {
  ...section("docs/decisions/0019-last-net.md", {
    "net.logged": "An error that nothing caught is logged whole, and the service exits with 70.",
    "net.restarted": "`npm start` and `serve` start a service again that ended with 70.",
    "net.gives-up": "A service that ends with 70 five times within a minute is given up, aloud, with 70.",
    "net.signals": "Signals and exit codes pass the parent in both directions; it never outlives its child.",
    "net.orphan": "A service whose parent was killed ends at once and leaves its data directory.",
  }),
  ...section("docs/operations.md: Limits under load", {
    "listener.slow": "Headers, bodies and idle connections have a time, on both listeners.",
    "listener.per-address": "An address holds so many connections without a token, and no more.",
    "listener.room": "Connections that say nothing make room for those that have something to ask.",
    "listener.owners": "Of a listener that is nearly full no project gets more than half.",
    "listener.trusted-proxies": "Trusted proxies are exempt: the address they forward counts.",
    "listener.descriptors":
      "Descriptors are kept back for the other listener and for the service's own work.",
    "listener.crowd":
      "Under 20,000 idle and half-sent connections on one listener another project's calls and reads all succeed.",
    "listener.unread":
      "An answer that its caller does not read has a time limit of its own; other answers do not end with it.",
    "listener.told": "A connection without a place is answered 429 or 503 with Retry-After, or closed.",
  }),
  ...section("docs/decisions/0014-management-api.md", {
    "bodies.token-first": "Where a token is needed it is looked at before the body.",
    "bodies.size":
      "At most 16 KiB without a token and 64 KiB with one, unless the operation takes more: else 413.",
    "bodies.depth": "At most 32 levels, JSON that every reader understands alike: else 400.",
    "bodies.uploads": "Upload addresses carry their own right and their own limit.",
    "bodies.counts": "Lists and maps have bounds that are looked at first, with clear errors.",
  }),
  ...section("docs/operations.md: Limits of apps", {
    "ceilings.refused": "A deploy with limits beyond the highest is refused, and told the bound.",
  }),
  ...section("docs/operations.md: Limits under load", {
    "shares.turns": "What waits gets its turn by project: one with much to ask takes no other's turn.",
    "shares.in-flight":
      "A project, a token and an address have so many management requests under way; more wait, then get 429 with Retry-After.",
    "shares.crowd":
      "Under 200 heavy reads and 1,000 log sockets of one project another's calls and reads succeed, p99 at most 5 times.",
    "sign-in.shares":
      "Passwords are hashed in turns by address: a caller who tries many keeps no one from signing in.",
    "shares.builds": "No project's builds take all places, and a build that hangs gives its place back.",
    "shares.heavy":
      "Figures, searches and filtered lists have a lane of their own: quick reads never wait for them.",
    "shares.heavy-time": "A heavy read has a time limit; past it the answer is 503.",
  }),
};
