import { section } from "./row.ts";

/** What an attack found open, and what has closed it. */
export const HARDENING = {
  ...section("SECURITY.md: Attacks that are tested", {
    "hardening.once-hidden": "The data of a file run is on no command line.",
    "hardening.once-like-python": "A file run finds what `python FILE FUNCTION --data JSON` gives it.",
    "hardening.certain-end":
      "A replica ends with all it started after its cooldown, also when those that should end it are stopped.",
    "hardening.archives":
      "What an archive unpacks to is bounded as a whole: bytes, entries, and bytes by what was sent.",
    "hardening.framing":
      "A request whose head leaves open where it ends, where it goes or whose it is is 400 at both listeners.",
    "hardening.host": "A Host that is no host is 400 at both listeners; links are made of no other.",
    "hardening.backup.sealed":
      "backup --encrypt writes what only the passphrase opens; cut or changed at any byte it is refused.",
    "hardening.backup.told": "A plain backup tells what it holds and that it is to be kept like a password.",
  }),
  ...section("SECURITY.md: Attacks that are tested", {
    "hardening.linear": "No text from outside makes an expression of the service look at it again and again.",
    "hardening.steering":
      "What apps and other people wrote neither steers a terminal nor hides in it; a pipe gets an app's answers as they are.",
    "hardening.own-socket": "The command line asks no service whose socket others could have put there.",
    "hardening.rebinding":
      "What needs no token on this machine needs one for a page that reaches it by a name of its own.",
    "hardening.headers": "No text that is given back in a header brings a header of its own.",
    "hardening.redirect": "After the sign-in no link leads out of the dashboard.",
    "hardening.order":
      "Whatever a connection brings, its answers leave in the order of its requests, at both listeners.",
    "hardening.pipelined":
      "A connection with more than 100 requests that are not answered ends; no other is kept waiting.",
    "hardening.bodies":
      "What the bodies of calls under way take of memory is bounded, for all and by project.",
    "hardening.answers":
      "Memory for stored payloads on their way to callers is bounded in the same way, also if callers do not read.",
    "hardening.webhooks":
      "Webhooks of one project that are never answered, at however many hosts, keep no other's waiting.",
    "hardening.projects": "One person's projects are bounded, and with them what their shares come to.",
    "hardening.lists":
      "Lists of a volume are bounded, read one at a time of each project, and written piece by piece.",
    "hardening.volume-open": "A link in a volume makes the service open nothing outside of it.",
  }),
  ...section("CONTRIBUTING.md: Before a release", {
    "hardening.audit":
      "npm run audit:deps fails for a serious advisory, and says aloud when it could not ask for any.",
  }),
};
