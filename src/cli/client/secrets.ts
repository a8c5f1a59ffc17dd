import { readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { SECRET_MAP, SECRET_NAME } from "../../shapes/projects.ts";
import type { SecretMap } from "../../model/app.ts";
import { APPS, type AppStatus } from "../../shapes/apps.ts";
import { CliFailure, usage } from "../failure.ts";
import { type Definitions } from "../options.ts";
import { pastable } from "../program-name.ts";
import { readStdin } from "../terminal.ts";
import type { Api } from "./api.ts";
import { restartApp } from "./apps.ts";
import { asking, type RemoteFlags, type Switches, type Task, type Texts } from "./task.ts";

type SecretFlags = RemoteFlags & Texts<"app" | "envFile" | "stdin"> & Switches<"show" | "restart">;

/** The states of an app whose next replica is a new one anyway. */
const WITHOUT_REPLICAS: readonly AppStatus[] = ["cold", "pending", "deploying"];
const RESTART = "then restart the replicas that would keep the old values";

const SCOPE = ["--app <app>", "use this app's secrets instead of the project's"] as const;
const HIDDEN = "••••••••";

export const COMMANDS: Definitions = {
  secrets(command) {
    asking(command, "list", "list secrets by name", listSecrets, "--app hello")
      .option(...SCOPE)
      .option("--show", "show the values as well");
    asking(
      command,
      "set",
      "add or change secrets",
      setSecrets,
      "API_KEY=s3cret",
      "pass show api | millrace secrets set --stdin API_KEY",
    )
      .option(...SCOPE)
      .argument("[pairs...]", "NAME=value")
      .option("--env-file <file>", "read NAME=value lines from a file")
      .option("--stdin <name>", "read one value from stdin, to keep it out of your shell's history")
      .option("--restart", RESTART);
    asking(command, "unset", "remove secrets", unsetSecrets, "API_KEY")
      .option(...SCOPE)
      .argument("<names...>", "their names")
      .option("--restart", RESTART);
  },
};

async function listSecrets(task: Task<SecretFlags>): Promise<void> {
  const { flags, out } = task;
  const entries = Object.entries(await read(task)).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const shown = entries.map(([name, value]) => ({ name, value: flags.show ? value : undefined }));
  out.list(shown, {
    NAME: ({ name }) => name,
    VALUE: ({ value }) => (value === undefined ? HIDDEN : JSON.stringify(value)),
  });
}

async function setSecrets(task: Task<SecretFlags>, pairs: readonly string[]): Promise<void> {
  const { flags } = task;
  const given: Record<string, string> = flags.envFile === undefined ? {} : readEnvFile(flags.envFile);
  for (const pair of pairs) {
    const index = pair.indexOf("=");
    if (index < 1) throw usage(`${JSON.stringify(pair)} is not NAME=value`);
    given[pair.slice(0, index)] = pair.slice(index + 1);
  }
  // The last line break is echo's or an editor's, and no part of a key.
  if (flags.stdin !== undefined)
    given[flags.stdin] = String(await readStdin("--stdin")).replace(/\r?\n$/, "");
  const names = Object.keys(given);
  if (names.length === 0) throw usage("nothing to set", "millrace secrets set NAME=value");
  const bad = names.find((name) => !SECRET_NAME.test(name));
  if (bad !== undefined) throw usage(`${JSON.stringify(bad)} cannot be the name of a secret`);
  await write(task, { ...(await read(task)), ...given });
  await finish(task, { set: names }, `${names.join(", ")} set`, `Set ${names.join(", ")}.`);
}

async function unsetSecrets(task: Task<SecretFlags>, names: readonly string[]): Promise<void> {
  const before = await read(task);
  const unknown = names.filter((name) => !Object.hasOwn(before, name));
  if (unknown.length > 0) {
    throw new CliFailure(`there is no secret ${unknown.join(", ")}`, { hint: "millrace secrets list" });
  }
  const after = Object.entries(before).filter(([name]) => !names.includes(name));
  await write(task, Object.fromEntries(after));
  await finish(task, { unset: names }, `${names.join(", ")} removed`, `Removed ${names.join(", ")}.`);
}

/** Restarts apps if `--restart` was given, and prints what was done; `done` is for the failure of a restart. */
async function finish(task: Task<SecretFlags>, document: object, done: string, said: string): Promise<void> {
  const { flags, out } = task;
  const restarted = flags.restart ? await restartAffected(task, done) : null;
  const then = restarted === null ? seenLater(flags) : sentence(restartedText(restarted));
  out.show({ ...document, ...(restarted && { restarted }) }, () => `${said} ${then}\n`);
}

/** Restarts the app, or all of the project that have replicas; tries each before it throws what was and was not done. */
async function restartAffected(task: Task<SecretFlags>, done: string): Promise<string[]> {
  const { api, flags } = task;
  const restarted: string[] = [];
  const failures: (readonly [app: string, failure: CliFailure])[] = [];
  for (const name of flags.app === undefined ? await appsWithReplicas(task) : [flags.app]) {
    try {
      await restartApp(api, name);
      restarted.push(name);
    } catch (error) {
      if (!(error instanceof CliFailure)) throw error;
      // Of a whole project: its first deploy failed, so there is nothing to restart.
      const isNew = error.detail.code === "build_not_found" && flags.app === undefined;
      if (!isNew) failures.push([name, error]);
    }
  }
  const [first] = failures;
  if (!first) return restarted;
  const [name, { detail }] = first;
  const which = failures.map(([app, { message }]) => `${app} could not be restarted: ${message}`);
  const all = [done, ...(restarted.length > 0 ? [restartedText(restarted)] : []), ...which];
  const hint = `fix the app or the secret (millrace logs ${name} shows why), then millrace restart ${name}`;
  throw new CliFailure(all.join("; "), { ...detail, hint });
}

async function appsWithReplicas({ api }: Task): Promise<string[]> {
  const prefix = `${await api.project()}-`;
  const apps = await api.get(APPS, await api.path("apps"));
  return apps
    .filter(({ status }) => !WITHOUT_REPLICAS.includes(status))
    .map(({ id }) => id.slice(prefix.length));
}

function restartedText(apps: readonly string[]): string {
  return apps.length === 0 ? "no replicas are running" : `restarted ${apps.join(", ")}`;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function seenLater(flags: SecretFlags): string {
  const command = pastable(`millrace restart ${flags.app ?? "APP"}`, flags);
  return `Replicas that start from now on see the change; ${command} restarts those that run.`;
}

async function read({ api, flags: { app } }: Task<SecretFlags>): Promise<SecretMap> {
  return await api.get(SECRET_MAP, await pathOf(api, app), { about: { app } });
}

/** Replaces the whole map: the service takes no parts. */
async function write({ api, flags: { app } }: Task<SecretFlags>, body: SecretMap): Promise<void> {
  await api.ask(SECRET_MAP, "PATCH", await pathOf(api, app), { body, about: { app } });
}

async function pathOf(api: Api, app: string | undefined): Promise<string> {
  return await (app === undefined ? api.path("secrets") : api.appPath(app, "/secrets"));
}

function readEnvFile(file: string): Record<string, string> {
  try {
    return { ...parseEnv(readFileSync(file, "utf8")) } as Record<string, string>;
  } catch (error) {
    throw usage(`${file} cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
}
