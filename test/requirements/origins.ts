import { section } from "./row.ts";

/** What apps, and the dashboard, can do to each other in a browser. */
export const ORIGINS = {
  ...section("docs/operations.md: A host for each app", {
    "origins.service-worker": "No service worker of one project answers for the pages of another.",
    "origins.headers":
      "Of an app's response, what browsers apply to a whole origin is dropped where apps share one; Clear-Site-Data everywhere.",
    "origins.domain": "A cookie of an app is for its own host alone: Domain is removed from Set-Cookie.",
    "origins.host":
      "With app_hosts, an app is also at the root of its own host: functions, runs, document, a server's paths, WebSockets.",
    "origins.label":
      "The label is {app}--{project}, split at the last --; a longer one is 40 characters of the name and 20 of a hash.",
    "origins.lookup": "A label with a hash is found by an index, and once found it is not asked for again.",
    "origins.punycode": "An app named xn, or whose name starts with xn--, has no host of its own.",
    "origins.misdirected": "A host below the domain that names no app gets 421, whatever the path.",
    "origins.silent":
      "Without a token of the project, no request, by host or by path, reveals whether there is such an app.",
    "origins.other-hosts": "Every other Host is served as without the setting, however it is written.",
    "origins.nodes": "An app's own host works at any node, and means what the first node took it for.",
    "origins.settings": "The dashboard, the API and the listeners have no host below the domain of apps.",
    "origins.dashboard": "The management API and the dashboard answer no request to a host below the domain.",
    "origins.shown": "The API, the command line and the dashboard show an app's own host.",
    "origins.doctor": "doctor says whether names below the domain lead anywhere.",
  }),
  ...section("docs/security.md: Browsers", {
    "cookies.two": "A request with two refresh cookies is refused, and the browser is made to forget both.",
    "cookies.prefix":
      "Under HTTPS the refresh cookie has the prefix __Host-, and no other cookie counts in its place.",
    "cookies.apps":
      "Apps neither get nor set cookies of ours: with a prefix, in other cases, or hidden in a cookie without a name.",
  }),
};
