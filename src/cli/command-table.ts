import type { Command } from "commander";

/** One word after `millrace`: what it is for, and where the rest of it is. */
export type CommandRow = {
  readonly name: string;
  readonly summary: string;
  readonly group: string;
  /** Adds arguments, options, subcommands and what they do. Loaded only when it is needed: starting stays quick. */
  readonly define: (command: Command) => Promise<void>;
};

const [APPS, LOOK, SERVER, ACCESS, OTHER] = [
  "Apps",
  "Runs and data",
  "The service itself",
  "Who and where",
  "More",
];

/** Every command, in the order of the help. */
export const COMMANDS: readonly CommandRow[] = [
  row(APPS, "init", "create an app in a folder", async (to) => {
    (await import("./commands/init.ts")).defineInit(to);
  }),
  row(APPS, "dev", "serve a folder locally, and reload it on every save", async (to) => {
    (await import("./commands/dev.ts")).defineDev(to);
  }),
  row(APPS, "deploy", "deploy a folder as an app", async (to) => {
    (await import("./commands/deploy.ts")).defineDeploy(to);
  }),
  row(APPS, "call", "call an app: a function, or a path of a server", async (to) => {
    (await import("./commands/call.ts")).defineCall(to);
  }),
  row(APPS, "run", "run a Python file once, in the surroundings of an app", async (to) => {
    (await import("./commands/run.ts")).defineRun(to);
  }),
  row(APPS, "apps", "list, show, scale, roll back and delete apps", async (to) => {
    (await import("./commands/apps.ts")).defineApps(to);
  }),
  row(APPS, "restart", "replace an app's replicas without a failed call", async (to) => {
    (await import("./commands/restart.ts")).defineRestart(to);
  }),
  row(APPS, "builds", "list and cancel builds, and read their logs", async (to) => {
    (await import("./commands/builds.ts")).defineBuilds(to);
  }),
  row(LOOK, "runs", "list, show, follow and cancel runs", async (to) => {
    (await import("./commands/runs.ts")).defineRuns(to);
  }),
  row(LOOK, "logs", "show what an app printed", async (to) => {
    (await import("./commands/logs.ts")).defineLogs(to);
  }),
  row(LOOK, "containers", "list the replicas of an app", async (to) => {
    (await import("./commands/containers.ts")).defineContainers(to);
  }),
  row(LOOK, "secrets", "manage encrypted environment variables of apps", async (to) => {
    (await import("./commands/secrets.ts")).defineSecrets(to);
  }),
  row(LOOK, "files", "manage files in the project's persistent storage", async (to) => {
    (await import("./commands/files.ts")).defineFiles(to);
  }),
  row(LOOK, "webhook", "receive webhooks here, list deliveries and send them again", async (to) => {
    (await import("./commands/webhook.ts")).defineWebhook(to);
  }),
  row(SERVER, "start", "run the service with the example apps, and print calls to try", async (to) => {
    (await import("./commands/operate.ts")).defineStart(to);
  }),
  row(SERVER, "serve", "run the service", async (to) => {
    (await import("./commands/operate.ts")).defineServe(to);
  }),
  row(SERVER, "bootstrap", "create the default project and the owner's token, and print them", async (to) => {
    (await import("./commands/operate.ts")).defineBootstrap(to);
  }),
  row(SERVER, "reset-password", "print a password-reset link", async (to) => {
    (await import("./commands/operate.ts")).defineResetPassword(to);
  }),
  row(SERVER, "rotate-keys", "sign tokens with a new key; earlier tokens stay valid", async (to) => {
    (await import("./commands/operate.ts")).defineRotateKeys(to);
  }),
  row(SERVER, "backup", "save everything to one file, even while the service runs", async (to) => {
    (await import("./commands/operate.ts")).defineBackup(to);
  }),
  row(SERVER, "restore", "restore a data directory from a backup", async (to) => {
    (await import("./commands/operate.ts")).defineRestore(to);
  }),
  row(SERVER, "storage", "show how much disk each project uses, and the limits", async (to) => {
    (await import("./commands/operate.ts")).defineStorage(to);
  }),
  row(SERVER, "nodes", "list the services of an installation, and take one out of use", async (to) => {
    (await import("./commands/nodes.ts")).defineNodes(to);
  }),
  row(SERVER, "doctor", "check everything the service depends on, and say what to do", async (to) => {
    (await import("./commands/operate.ts")).defineDoctor(to);
  }),
  row(SERVER, "bench", "measure calls per second and latency of the running service", async (to) => {
    (await import("./commands/bench.ts")).defineBench(to);
  }),
  row(ACCESS, "login", "sign in to a service", async (to) => {
    (await import("./commands/login.ts")).defineLogin(to);
  }),
  row(ACCESS, "logout", "sign out of a service", async (to) => {
    (await import("./commands/logout.ts")).defineLogout(to);
  }),
  row(ACCESS, "whoami", "show the service, the project and the account in use", async (to) => {
    (await import("./commands/whoami.ts")).defineWhoami(to);
  }),
  row(ACCESS, "projects", "list, create and choose projects", async (to) => {
    (await import("./commands/projects.ts")).defineProjects(to);
  }),
  row(ACCESS, "members", "manage the members of the project and its invitations", async (to) => {
    (await import("./commands/members.ts")).defineMembers(to);
  }),
  row(ACCESS, "service-accounts", "manage tokens for programs", async (to) => {
    (await import("./commands/service-accounts.ts")).defineServiceAccounts(to);
  }),
  row(OTHER, "completion", "print a completion script for your shell", async (to) => {
    (await import("./commands/completion.ts")).defineCompletion(to);
  }),
  row(OTHER, "version", "print the version", async (to) => {
    (await import("./commands/version.ts")).defineVersion(to);
  }),
];

function row(group: string, name: string, summary: string, define: CommandRow["define"]): CommandRow {
  return { name, summary, group, define };
}
