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
  "What they do and need",
  "The service itself",
  "Who and where",
  "More",
];

/** Every command, in the order of the help. */
export const COMMANDS: readonly CommandRow[] = [
  row(APPS, "init", "begin an app in a folder", async (to) => {
    (await import("./commands/init.ts")).defineInit(to);
  }),
  row(APPS, "dev", "serve one folder here, anew at every save", async (to) => {
    (await import("./commands/dev.ts")).defineDev(to);
  }),
  row(APPS, "deploy", "make a folder an app of the service", async (to) => {
    (await import("./commands/deploy.ts")).defineDeploy(to);
  }),
  row(APPS, "call", "call an app's function", async (to) => {
    (await import("./commands/call.ts")).defineCall(to);
  }),
  row(APPS, "apps", "list, look at, scale, roll back and delete apps", async (to) => {
    (await import("./commands/apps.ts")).defineApps(to);
  }),
  row(APPS, "builds", "list builds, read their logs, cancel them", async (to) => {
    (await import("./commands/builds.ts")).defineBuilds(to);
  }),
  row(LOOK, "runs", "list, look at, follow and cancel runs", async (to) => {
    (await import("./commands/runs.ts")).defineRuns(to);
  }),
  row(LOOK, "logs", "what an app printed", async (to) => {
    (await import("./commands/logs.ts")).defineLogs(to);
  }),
  row(LOOK, "containers", "the replicas of an app", async (to) => {
    (await import("./commands/containers.ts")).defineContainers(to);
  }),
  row(LOOK, "secrets", "environment variables of apps that are kept sealed", async (to) => {
    (await import("./commands/secrets.ts")).defineSecrets(to);
  }),
  row(LOOK, "files", "files in the project's persistent storage", async (to) => {
    (await import("./commands/files.ts")).defineFiles(to);
  }),
  row(LOOK, "webhook", "receive webhooks here, list deliveries, send them again", async (to) => {
    (await import("./commands/webhook.ts")).defineWebhook(to);
  }),
  row(SERVER, "start", "run the service with the example apps, and print calls to try", async (to) => {
    (await import("./commands/operate.ts")).defineStart(to);
  }),
  row(SERVER, "serve", "run the service", async (to) => {
    (await import("./commands/operate.ts")).defineServe(to);
  }),
  row(SERVER, "bootstrap", "make the default project and the owner's token once; print them", async (to) => {
    (await import("./commands/operate.ts")).defineBootstrap(to);
  }),
  row(SERVER, "reset-password", "a link to choose a new password by, for who forgot theirs", async (to) => {
    (await import("./commands/operate.ts")).defineResetPassword(to);
  }),
  row(
    SERVER,
    "rotate-keys",
    "sign tokens with a new key; those of the key before it stay good",
    async (to) => {
      (await import("./commands/operate.ts")).defineRotateKeys(to);
    },
  ),
  row(SERVER, "backup", "save everything into one file; the service may go on meanwhile", async (to) => {
    (await import("./commands/operate.ts")).defineBackup(to);
  }),
  row(SERVER, "restore", "make a data directory of a backup", async (to) => {
    (await import("./commands/operate.ts")).defineRestore(to);
  }),
  row(SERVER, "storage", "who uses how much of the disk, and how much there may be", async (to) => {
    (await import("./commands/operate.ts")).defineStorage(to);
  }),
  row(SERVER, "doctor", "look at everything the service depends on, and say what to do", async (to) => {
    (await import("./commands/operate.ts")).defineDoctor(to);
  }),
  row(SERVER, "bench", "calls per second and latencies of the service that runs", async (to) => {
    (await import("./commands/bench.ts")).defineBench(to);
  }),
  row(ACCESS, "login", "sign in to a service", async (to) => {
    (await import("./commands/login.ts")).defineLogin(to);
  }),
  row(ACCESS, "logout", "forget a service, and end the session there", async (to) => {
    (await import("./commands/logout.ts")).defineLogout(to);
  }),
  row(ACCESS, "whoami", "which service, which project, whose token", async (to) => {
    (await import("./commands/whoami.ts")).defineWhoami(to);
  }),
  row(ACCESS, "projects", "list projects, make one, choose one", async (to) => {
    (await import("./commands/projects.ts")).defineProjects(to);
  }),
  row(ACCESS, "members", "who belongs to the project, and who is invited", async (to) => {
    (await import("./commands/members.ts")).defineMembers(to);
  }),
  row(ACCESS, "service-accounts", "tokens for programs", async (to) => {
    (await import("./commands/service-accounts.ts")).defineServiceAccounts(to);
  }),
  row(OTHER, "completion", "a script that makes the shell complete commands", async (to) => {
    (await import("./commands/completion.ts")).defineCompletion(to);
  }),
  row(OTHER, "version", "the version of this command line", async (to) => {
    (await import("./commands/version.ts")).defineVersion(to);
  }),
];

function row(group: string, name: string, summary: string, define: CommandRow["define"]): CommandRow {
  return { name, summary, group, define };
}
