import { section } from "./row.ts";

/** Tokens that may be public, whose runs are whose, and what ends with a token. */
export const CALLERS = {
  ...section("docs/accounts.md: Tokens for browsers", {
    "call.apps":
      "A token of role call calls the apps that its account names; every other is 403, there or not.",
    "call.functions":
      "An account of role call may be limited to functions; then it calls no other, and no server app.",
    "call.origins":
      "An account of role call may be limited to origins; a request that names another is refused, one that names none is not.",
    "call.pace":
      "An account of role call may be limited to calls per minute, for each end user; beyond it is 429 with Retry-After.",
    "call.nothing-else":
      "A token of role call reads neither an app's document nor anything of the management API or its logs.",
    "call.own-runs":
      "A token of role call has the runs of its own account and user; all others are 404, at every node.",
    "call.own-keys":
      "A token of role call has Idempotency-Keys of its own: another's are never met, nor in the way.",
    "call.record": "A run's record tells the account and the end user that asked for it, in every mode.",
    "call.public":
      "A call of a public app with a token is its holder's; with an invalid token it has no owner.",
    "call.users":
      "A token of role run or stronger makes tokens for end users of an account of role call, for at most 24 hours.",
    "call.users.end":
      "An end user's token ends with its own time, the account's revocation and expiry, and its rotation after the overlap.",
    "call.role-stays":
      "An account of role call is never given more: neither its own tokens nor its end users' gain a right.",
    "call.limits":
      "The limits of an account of role call are created, shown, changed and audited; no other account has any.",
    "call.cli": "The command line creates accounts of role call with their limits, and end users' tokens.",
    "call.dashboard": "The dashboard creates an account of role call with its limits, and shows them.",
  }),
  ...section("docs/accounts.md: Tokens", {
    "revoked.soon":
      "Whatever is open by a token's right is told within 5 s that the right has ended, at every node.",
    "revoked.streams":
      "Streams, responses and readers of events get event: error or are cut off when their token loses the right.",
    "revoked.sockets":
      "WebSockets and log sockets are closed with 1008 when their token loses the right, and cut off if they do not answer.",
    "revoked.waiting":
      "A request that waits for a result, or whose body comes slowly, is refused when its token has been revoked meanwhile.",
    "revoked.only":
      "A change that leaves the right as it is closes nothing: another name, a rotation within its overlap.",
  }),
};
