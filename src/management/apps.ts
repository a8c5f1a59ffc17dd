import type { Catalog, LiveApp } from "../apps/catalog.ts";
import type { App } from "../model/app.ts";
import { isFinalBuild } from "../model/build.ts";
import type { Build } from "../model/build.ts";
import { appId } from "../model/names.ts";
import { APP, APPS, CONTAINERS } from "../shapes/apps.ts";
import type { AppRecord, AppStatus, ContainerRecord } from "../shapes/apps.ts";
import { timestamp } from "../shapes/timestamp.ts";
import type { Store } from "../store/store.ts";
import { findApp } from "./api/find-app.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";
import { APP_PATH, PROJECT_PATH } from "./api/schemas.ts";

export type AppParts = { readonly store: Store; readonly catalog: Catalog };

const TAG = "Apps";
const PATH = "/v2/projects/{project_id}/apps";
/** A project's apps and their replicas. */
export function appOperations({ store, catalog }: AppParts): AnyOperation[] {
  return [
    operation({
      method: "GET",
      path: PATH,
      id: "listApps",
      tag: TAG,
      summary: "List a project's apps",
      access: "run",
      params: PROJECT_PATH,
      response: APPS,
      handle: async ({ params }) => {
        const apps = await store.apps.list(params.project_id);
        return await Promise.all(
          apps.map(async (app) => {
            const live = catalog.byNumber(app.number);
            return brief(app, live, live ? null : await store.builds.latest(app.number));
          }),
        );
      },
    }),
    operation({
      method: "GET",
      path: `${PATH}/{app_id}`,
      id: "getApp",
      tag: TAG,
      summary: "Get an app",
      access: "run",
      params: APP_PATH,
      response: APP,
      errors: ["app_not_found"],
      handle: async ({ params }) => await appRecord({ store, catalog }, await findApp(store, params)),
    }),
    operation({
      method: "GET",
      path: `${PATH}/{app_id}/containers`,
      id: "listContainers",
      tag: TAG,
      summary: "List an app's replicas",
      access: "run",
      params: APP_PATH,
      response: CONTAINERS,
      errors: ["app_not_found"],
      handle: async ({ params }) => {
        const { number } = await findApp(store, params);
        return catalog.versions(number).flatMap((live) => containersOf(live, params.app_id));
      },
    }),
  ];
}

/** An app with the settings of the version that serves, and how its last deploy went. */
export async function appRecord({ store, catalog }: AppParts, app: App): Promise<AppRecord> {
  const live = catalog.byNumber(app.number);
  const latest = await store.builds.latest(app.number);
  const { hardware, scaling } = live?.version.config ?? {};
  return {
    ...brief(app, live, latest),
    hardware: hardware?.compute.join(",") ?? "CPU",
    cpu: String(hardware?.cpu ?? 0),
    memory: String(hardware?.memoryGb ?? 0),
    gpuCount: String(hardware?.gpuCount ?? 0),
    cooldownPeriodSeconds: String(scaling?.cooldownSeconds ?? 0),
    minReplicaCount: String(scaling?.minReplicas ?? 0),
    maxReplicaCount: String(scaling?.maxReplicas ?? 0),
    responseGracePeriodSeconds: String(scaling?.responseGracePeriodSeconds ?? 0),
    // What an earlier release deployed has no build.
    lastBuildStatus: latest?.status ?? (app.currentVersionId === null ? null : "success"),
    latestBuildId: latest?.id ?? app.currentVersionId,
  };
}

function brief(app: App, live: LiveApp | undefined, latest: Build | null) {
  return {
    id: appId(app.projectId, app.name),
    status: live ? statusOf(live) : statusBefore(latest),
    createdAt: timestamp(app.createdAt),
    updatedAt: timestamp(app.updatedAt),
  };
}

/** Of an app that has no version yet. */
function statusBefore(latest: Build | null): AppStatus {
  if (!latest || latest.status === "pending" || latest.status === "cancelled") return "pending";
  return isFinalBuild(latest.status) ? "error" : "deploying";
}

function statusOf(live: LiveApp): AppStatus {
  const states = [...live.pool.replicas].map(({ state }) => state);
  if (states.includes("ready")) return "ready";
  if (states.includes("starting")) return "notready";
  return live.pool.hasFailedToStart ? "error" : "cold";
}

function containersOf({ app, version, pool }: LiveApp, id: string): ContainerRecord[] {
  const now = Date.now();
  return [...pool.replicas].map((replica) => ({
    appId: id,
    projectId: app.projectId,
    containerId: replica.id,
    containerState: replica.state === "starting" ? "PENDING" : "RUNNING",
    timestamp: timestamp(now),
    containerStartTimestamp: timestamp(replica.startedAt),
    containerTerminationTimestamp: null,
    containerRunningTimeMs: replica.readyAt === 0 ? 0 : Math.max(0, now - replica.readyAt),
    containerRestartCount: 0,
    hostIp: null,
    containerIp: null,
    hardwareProvider: version.config.hardware.provider,
    region: version.config.hardware.region,
    buildId: version.id,
    isTerminating: replica.state === "draining",
  }));
}
