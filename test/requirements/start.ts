import { section } from "./row.ts";

/** Addresses, settings, the first start, and one process per data directory. */
export const START = {
  ...section("seed: What the service does; contract 0: Addresses", {
    "start.api-url": "The app endpoints listen on http://127.0.0.1:4000 unless set otherwise.",
    "start.base-url": "The management API listens on http://127.0.0.1:4100 unless set otherwise.",
    "start.addresses-differ": "The app endpoints and the management API have different addresses.",
  }),
  ...section("contract 0: start, from a fresh clone", {
    "start.listeners": "`npm start` brings both listeners up.",
    "start.master-key":
      "With a master key that is not its database's the service does not start, and says why.",
    "start.examples": "`npm start` deploys the example apps in a default project.",
    "start.curl.sync": "`npm start` prints a sync curl with a working token that answers when pasted.",
    "start.curl.async": "`npm start` prints an async curl that works when pasted.",
    "start.curl.stream": "`npm start` prints a streaming curl that works when pasted.",
    "start.curl.every-start": "The curl commands and their token are printed at every start.",
    "start.ctrl-c": "Ctrl-C stops `npm start` and leaves no process behind.",
  }),
  ...section("contract 0: test, from a fresh clone", {
    "start.npm-test": "`npm run test:all` runs every test file there is.",
  }),
  ...section("contract 0: the CLI from a clone", {
    "cli.own-node": "`bin/millrace` is executable and runs on the repo's own Node.",
    "cli.serve": "`bin/millrace serve` starts the service alone, without examples.",
    "cli.serve.loopback-by-default": "`bin/millrace serve` listens on loopback unless told otherwise.",
  }),
  ...section("contract 0: settings", {
    "settings.precedence": "A flag wins over the environment, and the environment over the config file.",
    "settings.all-problems": "Every problem of the settings is reported at once.",
    "settings.dropped": "A setting of an earlier release is refused by name, with what to do instead.",
    "settings.few": "There are at most 58 settings, each in one group of docs/config.md.",
    "settings.data-dir": "MILLRACE_DATA_DIR names the data directory, ./.millrace when unset.",
    "settings.host": "MILLRACE_HOST names the address both listeners bind to.",
    "settings.api-port": "MILLRACE_API_PORT sets the port of the app endpoints.",
    "settings.base-port": "MILLRACE_BASE_PORT sets the port of the management API.",
    "settings.database.sqlite":
      "Without MILLRACE_DATABASE_URL the service uses SQLite in the data directory.",
    "settings.database.postgres": "MILLRACE_DATABASE_URL=postgres://… makes the service use Postgres.",
    "settings.public-urls":
      "MILLRACE_PUBLIC_API_URL and MILLRACE_PUBLIC_BASE_URL are the addresses given out.",
    "settings.public-urls.unset": "Without public URLs, links are made from the request's Host.",
    "settings.webhook-allow": "MILLRACE_WEBHOOK_ALLOW takes a list of CIDRs and refuses anything else.",
    "settings.webhook-allow.effect":
      "Webhooks reach private addresses inside MILLRACE_WEBHOOK_ALLOW and no others.",
    "settings.isolation":
      "MILLRACE_ISOLATION is auto by default and takes none, process, landlock, userns, uid.",
    "settings.isolation.effect":
      "The service refuses to start if the host cannot give the level that MILLRACE_ISOLATION names.",
    "settings.shutdown-grace": "MILLRACE_SHUTDOWN_GRACE is 30 s by default.",
    "settings.max-runs": "MILLRACE_MAX_RUNS is 10 million records by default.",
    "settings.max-storage": "MILLRACE_MAX_STORAGE is 10 GB by default.",
    "settings.caps.effect":
      "Past MILLRACE_MAX_RUNS or MILLRACE_MAX_STORAGE the oldest finished runs go first.",
    "settings.caps.keep-open": "No cap ever removes an unfinished run or an open delivery.",
  }),
  ...section("contract 0: bin/millrace bootstrap --json", {
    "bootstrap.once": "bootstrap creates the default project and the owner token once.",
    "bootstrap.again": "bootstrap prints the same project and token at every call.",
    "bootstrap.shape": 'bootstrap --json prints exactly {"project_id","token","api_url","base_url"}.',
    "bootstrap.token-file": "The owner token is kept in owner-token in the data directory with mode 0600.",
    "bootstrap.shared": "Services that share a database share the owner token, whatever their directory.",
    "bootstrap.service-up": "With the service up, bootstrap asks it over a control socket with mode 0600.",
    "bootstrap.service-down": "With the service down, bootstrap opens the data directory itself.",
    "control.backup-doctor": "With the service up, backup and doctor ask it over the control socket.",
    "directory.one-process": "A second service on the same data directory exits with a clear message.",
    "directory.freed-by-death": "The lock on a data directory is free after any death of its holder.",
    "directory.short-sockets":
      "Sockets have paths under 107 bytes however long the data directory's path is.",
  }),
  ...section("contract 0: warnings", {
    "warning.not-loopback": "Listening on anything but loopback prints one loud warning.",
    "warning.public-app": "An app with auth off prints one loud warning.",
  }),
};
