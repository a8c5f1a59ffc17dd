import {
  APP,
  type AppRecord,
  APPS,
  type ContainerRecord,
  CONTAINERS,
  type Scaling,
} from "../../shapes/apps.ts";
import { ID } from "../../shapes/common.ts";
import { usage } from "../failure.ts";
import type { Definitions } from "../options.ts";
import { bytes, duration, fields, paintStatus, printableName, relative } from "../output.ts";
import { confirm } from "../terminal.ts";
import type { Api } from "./api.ts";
import { findEarlier } from "./builds.ts";
import { asking, asks, count, seconds, YES_OPTION } from "./task.ts";
import type { Numbers, RemoteFlags, Task, YesFlags } from "./task.ts";

type HeldGpu = NonNullable<ContainerRecord["gpus"]>[number];
type ScaleFlags = RemoteFlags & Numbers<"min" | "max" | "concurrency" | "cooldown" | "grace">;

const amount = (option: string): ((text: string) => number) => count(option, 0, 999_999);

export const COMMANDS: Definitions = {
  apps(command) {
    asking(command, "list", "list the project's apps", listApps);
    asking(command, "get <app>", "show an app and its settings", getApp, "hello");
    asking(
      command,
      "scale <app>",
      "change how an app scales, without a new version",
      scaleApp,
      "hello --min 1 --max 4 --grace 1h",
    )
      .option("--min <count>", "minimum number of replicas", amount("--min"))
      .option("--max <count>", "maximum number of replicas", amount("--max"))
      .option("--concurrency <count>", "how many calls one replica takes at a time", amount("--concurrency"))
      .option("--cooldown <duration>", "how long an idle replica is kept", seconds("--cooldown"))
      .option("--grace <duration>", "how long a run may take", seconds("--grace"));
    asking(command, "rollback <app>", "go back to an earlier version", rollBack, "hello").argument(
      "[build]",
      "the build to go back to (default: the successful one before the current)",
    );
    asking(command, "delete <app>", "delete an app and all its versions", deleteApp, "hello --yes").option(
      ...YES_OPTION,
    );
  },
  restart(command) {
    const restart = async ({ api, out }: Task, app: string): Promise<void> =>
      out.show(await restartApp(api, app), () => `${app} is restarted.\n`);
    asks(command, restart, "millrace restart hello").argument("<app>", "the app's name");
  },
  containers(command) {
    asking(command, "list <app>", "list an app's current replicas", listContainers, "hello");
  },
};

async function listApps({ api, out }: Task): Promise<void> {
  const apps = await api.get(APPS, await api.path("apps"));
  const prefix = `${await api.project()}-`;
  out.list(apps, {
    APP: ({ id }) => id.slice(prefix.length),
    STATUS: ({ status }) => paintStatus(status),
    UPDATED: ({ updatedAt }) => relative(updatedAt),
    CREATED: ({ createdAt }) => relative(createdAt),
  });
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
      found.startFailure ? ["failure", found.startFailure] : null,
      endpoint === null ? null : ["endpoint", endpoint],
      found.host ? ["own host", hostUrl(found.host, api.site.apiUrl)] : null,
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

async function scaleApp({ api, flags, out }: Task<ScaleFlags>, app: string): Promise<void> {
  const body: { readonly [Name in keyof Scaling]: number | undefined } = {
    minReplicaCount: flags.min,
    maxReplicaCount: flags.max,
    replicaConcurrency: flags.concurrency,
    cooldownPeriodSeconds: flags.cooldown,
    responseGracePeriodSeconds: flags.grace,
  };
  if (Object.values(body).every((value) => value === undefined))
    throw usage("nothing to change", `millrace apps scale ${app} --min 1 --max 4`);
  const changed = await api.ask(APP, "PATCH", await api.appPath(app), { body, about: { app } });
  out.show(changed, () => `${app} is changed.\n`);
}

async function rollBack({ api, out }: Task, app: string, build?: string): Promise<void> {
  const buildId = build ?? (await findEarlier(api, app));
  const path = await api.appPath(app, "/rollback");
  const answer = await api.ask(APP, "POST", path, { body: { buildId }, about: { app } });
  out.show(answer, () => `${app} now serves build ${buildId} again.\n`);
}

async function deleteApp({ api, flags, out, signal }: Task<YesFlags>, app: string): Promise<void> {
  const path = await api.appPath(app);
  // Before the question: a mistyped name is found out first.
  await api.get(APP, path, { about: { app } });
  await confirm(`Delete ${app} of ${await api.project()} and all its versions?`, flags, signal);
  const answer = await api.ask(ID, "DELETE", path, { about: { app } });
  out.show(answer, () => `${app} is deleted.\n`);
}

/** Has the service replace an app's replicas; resolves once calls go to the new ones. */
export async function restartApp(api: Api, app: string): Promise<AppRecord> {
  return await api.ask(APP, "POST", await api.appPath(app, "/restart"), { about: { app } });
}

async function listContainers({ api, out }: Task, app: string): Promise<void> {
  const found = await api.get(CONTAINERS, await api.appPath(app, "/containers"), { about: { app } });
  out.list(found, {
    CONTAINER: ({ containerId }) => containerId,
    STATE: ({ isTerminating, containerState }) => (isTerminating ? "stopping" : paintStatus(containerState)),
    STARTED: ({ containerStartTimestamp }) => relative(containerStartTimestamp),
    "READY FOR": ({ containerRunningTimeMs }) => duration(containerRunningTimeMs),
    SETUP: ({ setupMs }) => duration(setupMs),
    BUILD: ({ buildId }) => buildId,
    GPU: ({ gpus }) => gpus?.map(gpuText).join(", ") || "–",
  });
  for (const { containerId, pendingReason } of found)
    if (pendingReason) out.note(`${containerId} waits: ${pendingReason}`);
  if (found.length === 0) out.note("none: the next call starts one");
}

function gpuText({ uuid, model, memoryBytes }: HeldGpu): string {
  const share = memoryBytes === null ? "" : ` (${bytes(memoryBytes)})`;
  return `${printableName(model ?? "gone:")} ${printableName(uuid)}${share}`;
}
