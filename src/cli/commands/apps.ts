import type { Command } from "commander";
import { parseDuration } from "../../kit/duration.ts";
import { APP, APPS } from "../../shapes/apps.ts";
import type { Scaling } from "../../shapes/apps.ts";
import { ID } from "../../shapes/common.ts";
import { usage } from "../failure.ts";
import { examples, remote } from "../options.ts";
import { duration, relative } from "../output/amounts.ts";
import { confirm } from "../output/confirm.ts";
import { paintStatus } from "../output/paint.ts";
import { fields, table } from "../output/table.ts";
import { withService } from "../task.ts";
import type { RemoteFlags, Task } from "../task.ts";
import { findEarlier } from "./builds.ts";

type ScaleFlags = RemoteFlags & {
  readonly min?: string;
  readonly max?: string;
  readonly concurrency?: string;
  readonly cooldown?: string;
  readonly grace?: string;
};

/** `millrace apps list|get|scale|rollback|delete` */
export function defineApps(command: Command): void {
  const list = remote(command.command("list")).description("list the project's apps");
  examples(list, "millrace apps list").action(withService(listApps));

  const get = remote(command.command("get")).description("show an app and its settings");
  get.argument("<app>", "the app's name");
  examples(get, "millrace apps get hello").action(withService(getApp));

  const scale = remote(command.command("scale")).description(
    "change how an app scales, without a new version",
  );
  scale
    .argument("<app>", "the app's name")
    .option("--min <count>", "minimum number of replicas")
    .option("--max <count>", "maximum number of replicas")
    .option("--concurrency <count>", "how many calls one replica takes at a time")
    .option("--cooldown <duration>", "how long an idle replica is kept")
    .option("--grace <duration>", "how long a run may take");
  examples(scale, "millrace apps scale hello --min 1 --max 4 --grace 1h").action(withService(scaleApp));

  const rollback = remote(command.command("rollback")).description("go back to an earlier version");
  rollback
    .argument("<app>", "the app's name")
    .argument("[build]", "the build to go back to (default: the successful one before the current)");
  examples(rollback, "millrace apps rollback hello").action(withService(rollBack));

  const remove = remote(command.command("delete")).description("delete an app and all its versions");
  remove.argument("<app>", "the app's name").option("--yes", "do not ask for confirmation");
  examples(remove, "millrace apps delete hello --yes").action(withService(deleteApp));
}

async function listApps({ api, out }: Task): Promise<void> {
  const apps = await api.get(APPS, await api.path("apps"));
  const prefix = `${await api.project()}-`;
  out.show(apps, () =>
    table(
      ["APP", "STATUS", "UPDATED", "CREATED"],
      apps.map(({ id, status, updatedAt, createdAt }) => [
        id.slice(prefix.length),
        paintStatus(status),
        relative(updatedAt),
        relative(createdAt),
      ]),
    ),
  );
  if (apps.length === 0) out.note("none yet: millrace init, then millrace deploy");
}

async function getApp({ api, out }: Task, app: string): Promise<void> {
  const found = await api.get(APP, await api.appPath(app), { about: { app } });
  const seconds = (text: string): string => duration(Number(text) * 1000);
  const endpoint = api.site.apiUrl === null ? null : (await api.appUrl(app, "")).slice(0, -1);
  out.show(found, () =>
    fields([
      ["id", found.id],
      ["status", paintStatus(found.status)],
      ...(found.startFailure ? [["failure", found.startFailure] as const] : []),
      ...(endpoint === null ? [] : [["endpoint", endpoint] as const]),
      ...(found.host ? [["own host", hostUrl(found.host, api.site.apiUrl)] as const] : []),
      ["build", `${found.latestBuildId ?? "none"}  ${paintStatus(found.lastBuildStatus ?? "")}`.trim()],
      ["replicas", `${found.minReplicaCount} to ${found.maxReplicaCount}`],
      ["hardware", `${found.hardware}, ${found.cpu} cores, ${found.memory} GB`],
      ["cooldown", seconds(found.cooldownPeriodSeconds)],
      ["grace", seconds(found.responseGracePeriodSeconds)],
      ["updated", relative(found.updatedAt)],
      ["created", relative(found.createdAt)],
    ]),
  );
}

/** The URL of an app host: its protocol and port are those of the app endpoints, if known. */
function hostUrl(host: string, apiUrl: string | null): string {
  if (apiUrl === null) return host;
  const { protocol, port } = new URL(apiUrl);
  return `${protocol}//${host}${port === "" ? "" : `:${port}`}`;
}

async function scaleApp(task: Task<ScaleFlags>, app: string): Promise<void> {
  const { api, flags, out } = task;
  const body: Partial<Scaling> = {
    ...(flags.min !== undefined && { minReplicaCount: readCount("--min", flags.min) }),
    ...(flags.max !== undefined && { maxReplicaCount: readCount("--max", flags.max) }),
    ...(flags.concurrency !== undefined && {
      replicaConcurrency: readCount("--concurrency", flags.concurrency),
    }),
    ...(flags.cooldown !== undefined && { cooldownPeriodSeconds: readSeconds("--cooldown", flags.cooldown) }),
    ...(flags.grace !== undefined && { responseGracePeriodSeconds: readSeconds("--grace", flags.grace) }),
  };
  if (Object.keys(body).length === 0) {
    throw usage("nothing to change", `millrace apps scale ${app} --min 1 --max 4`);
  }
  const changed = await api.ask(APP, "PATCH", await api.appPath(app), { body, about: { app } });
  out.show(changed, () => `${app} is changed.\n`);
}

async function rollBack({ api, out }: Task, app: string, build?: string): Promise<void> {
  const buildId = build ?? (await findEarlier(api, app));
  const path = await api.appPath(app, "/rollback");
  const answer = await api.ask(APP, "POST", path, { body: { buildId }, about: { app } });
  out.show(answer, () => `${app} now serves build ${buildId} again.\n`);
}

async function deleteApp(task: Task<RemoteFlags & { yes?: boolean }>, app: string): Promise<void> {
  const { api, flags, out, signal } = task;
  const path = await api.appPath(app);
  // Before the question: whoever mistyped the name is told so.
  await api.get(APP, path, { about: { app } });
  await confirm(`Delete ${app} of ${await api.project()} and all its versions?`, flags, signal);
  const answer = await api.ask(ID, "DELETE", path, { about: { app } });
  out.show(answer, () => `${app} is deleted.\n`);
}

function readCount(flag: string, text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw usage(`${flag} takes a number, not ${JSON.stringify(text)}`);
  return Number(text);
}

function readSeconds(flag: string, text: string): number {
  const seconds = parseDuration(text);
  if (seconds === null)
    throw usage(`${flag} takes a duration such as 90s or 15m, not ${JSON.stringify(text)}`);
  return seconds;
}
