import { section } from "./row.ts";

/** The command line and the client libraries. */
export const TOOLS = {
  ...section("docs/cli.md: Apps", {
    "cli.call": "`millrace call` runs a function in every mode.",
    "cli.call-path":
      "`millrace call APP /path` sends any method, headers and body to a server, and prints the response as it comes.",
    "cli.call-socket":
      "`millrace call APP /path --ws` sends the lines of stdin, prints messages, and closes as it should.",
    "cli.apps": "`millrace apps` lists, shows, scales, rolls back and deletes.",
    "cli.pastable":
      "Commands that the command line prints can be pasted: the program, arguments and token are right.",
    "cli.data-dir":
      "`--data-dir` names the service that runs on a data directory, and no setting overrides it.",
    "cli.call.functions": "`millrace call` of a function that is not there lists those that are.",
    "cli.map": "`millrace map` calls a function with each line of stdin, and prints each result.",
    "cli.map.resume": "`millrace map` can be continued after Ctrl-C, while it sends and while the lines run.",
    "cli.runs.project": "`millrace runs list` without an app lists the runs of all apps of the project.",
    "cli.runs": "`millrace runs` lists, shows, cancels and follows runs.",
    "cli.logs": "`millrace logs` shows, searches and follows an app's lines.",
    "cli.run": "`millrace run` runs a file, or a function of it, once, and prints what it prints.",
    "cli.restart":
      "`millrace restart` and `secrets set --restart` replace an app's replicas without a failed call.",
    "cli.secrets": "`millrace secrets` lists, sets and unsets.",
    "cli.files": "`millrace files` lists, copies, downloads and removes.",
    "cli.accounts": "`millrace service-accounts` creates, lists, rotates and deletes.",
    "cli.members":
      "`millrace members` and `invitations` invite a person to a project, list, revoke and remove.",
    "cli.reset-password":
      "`millrace reset-password` prints a password-reset link, with the service up or down.",
    "cli.rotate-keys":
      "`millrace rotate-keys` has a new key sign, and leaves the owner a token that outlives the next rotation.",
    "cli.login": "Signing in keeps a profile in a file that only its owner reads.",
    "cli.init": "`millrace init` makes an app that deploys as it is, and overwrites nothing.",
    "cli.deploy": "`millrace deploy` brings a folder to a running version.",
    "cli.dev": "`millrace dev` serves a folder and follows its changes.",
    "cli.dev.call":
      "The commands that `millrace dev` prints reach its own service, whatever else runs in the folder.",
    "cli.dev-server": "`millrace dev` serves an app that is a server, and starts it anew on every save.",
    "cli.completion": "Shells can complete every command.",
    "cli.errors": "An error says what happened and what helps, with the documented exit code and no stack.",
    "cli.json": "`--json` prints one document and nothing else.",
    "cli.start-time": "A command that talks to no service loads nothing of it.",
    "cli.chaos":
      "`millrace doctor --chaos` kills a replica and the service under load, and counts what was lost.",
    "cli.escape":
      "`millrace doctor --escape` deploys a hostile app, says what stopped each attack, fails if a claim does not hold.",
    "cli.terminal": "On a terminal a newcomer gets from init to a call, a stream and a log.",
    "cli.docs": "docs/cli.md names every command and option.",
  }),
  ...section("README.md: Deploy your own app", {
    "examples.models":
      "The examples with models do what their READMEs say, with weights of the same kind as the real ones.",
    "examples.work":
      "Each example has a README and a configuration of its own, deploys as it is, and does what its README says.",
  }),
  ...section("README.md: Start it", {
    "docs.blocks":
      "Every command in the documents and in the examples' READMEs works as it stands, from nothing to a call.",
  }),
  ...section("CONTRIBUTING.md: Before a release", {
    "packaging.pack":
      "The packed release serves apps, the dashboard and the client library without its sources.",
    "packaging.release":
      "A release has package, wheel and chart of one version, a bill of materials and checksums, the same bytes each time.",
    "packaging.clean":
      "With npm alone, an ordinary user starts the packed release with npx, calls an app and stops it, and nothing is left.",
    "packaging.client":
      "After `npm ci`, `millrace/client` can be imported inside the clone and from a project that depends on it.",
    "packaging.quiet": "`npm ci` on Node 20 warns of nothing.",
    "packaging.true": "The image, the compose file and the systemd unit name what there is.",
  }),
  ...section("docs/clients.md", {
    "client.typescript": "The TypeScript client runs, submits, streams and cancels.",
    "client.python": "The Python client has the same verbs.",
    "client.server": "Both clients call a server's paths, and tell its answers from refusals by the service.",
    "client.map":
      "map and starmap call a function once for each input, and yield the results in their order or as they end.",
    "client.map.errors":
      "A call that fails ends a map, or its error takes the place of its result; leaving a map cancels the rest.",
    "client.map.large": "A map of more inputs than fit into memory sends and receives them as streams.",
    "client.map.broken": "A map gives each result once, however often connections break.",
    "client.batches": "Both clients create, read, cancel and retry batches.",
    "client.spawn": "spawn starts a run, whose get gives what it returns.",
    "client.reattach": "A stream that is cut is taken up again without loss or repetition.",
    "client.truncated":
      "Both clients raise an error if the rest of a stream is not stored, and if a connection ends without `end`.",
    "client.webhook": "Both clients verify webhooks.",
  }),
};
