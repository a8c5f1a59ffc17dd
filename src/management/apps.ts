import type { Catalog, LiveApp } from "../apps/catalog.ts";
import { glanceOf } from "../apps/glance.ts";
import type { App, Glance } from "../model/app.ts";
import { isFinalBuild } from "../model/build.ts";
import type { Build } from "../model/build.ts";
import { appId, hostLabel } from "../model/names.ts";
import { APP, APPS, CONTAINERS } from "../shapes/apps.ts";
import type { AppRecord, AppStatus, ContainerRecord } from "../shapes/apps.ts";
import { timestamp } from "../shapes/timestamp.ts";
import type { Store } from "../store/store.ts";
import type { Glances } from "./glances.ts";
import { findApp } from "./api/find-app.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";
import { APP_PATH, PROJECT_PATH } from "./api/schemas.ts";

export type AppParts = {
  readonly store: Store;
  readonly catalog: Catalog;
  readonly glances: Glances;
  /** The domain of app hosts; null if the setting is unset. */
  readonly appHosts: string | null;
};

const TAG = "Apps";
const PATH = "/v2/projects/{project_id}/apps";
/** A project's apps and their replicas. */
export function appOperations(parts: AppParts): AnyOperation[] {
  const { store, catalog, glances } = parts;
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
        const { project_id: projectId } = params;
        const [apps, live] = await Promise.all([store.apps.list(projectId), glances(projectId)]);
        return await Promise.all(
          apps.map(async (app) => {
            const state = live.get(app.number)?.state;
            return brief(app, state, state ? null : await store.builds.latest(app.number));
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
      handle: async ({ params }) => await appRecord(parts, await findApp(store, params)),
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
export async function appRecord(
  { store, catalog, appHosts }: Omit<AppParts, "glances">,
  app: App,
): Promise<AppRecord> {
  const live = catalog.byNumber(app.number);
  const state = glanceOf(catalog.versions(app.number))?.state;
  const latest = await store.builds.latest(app.number);
  const { hardware, scaling } = live?.version.config ?? {};
  return {
    ...brief(app, state, latest),
    startFailure: live?.pool.startFailure?.message ?? null,
    hardware: hardware?.compute.join(",") ?? "CPU",
    cpu: String(hardware?.cpu ?? 0),
    memory: String(hardware?.memoryGb ?? 0),
    gpuCount: String(hardware?.gpuCount ?? 0),
    cooldownPeriodSeconds: String(scaling?.cooldownSeconds ?? 0),
    minReplicaCount: String(scaling?.minReplicas ?? 0),
    maxReplicaCount: String(scaling?.maxReplicas ?? 0),
    responseGracePeriodSeconds: String(scaling?.responseGracePeriodSeconds ?? 0),
    lastBuildStatus: latest?.status ?? null,
    latestBuildId: latest?.id ?? null,
    host: hostOf(app, appHosts),
  };
}

function brief(app: App, state: Glance["state"] | undefined, latest: Build | null) {
  return {
    id: appId(app.projectId, app.name),
    status: state ?? statusBefore(app, latest),
    createdAt: timestamp(app.createdAt),
    updatedAt: timestamp(app.updatedAt),
  };
}

/** The app's own host; null if it has none. */
function hostOf({ projectId, name }: App, appHosts: string | null): string | null {
  const label = hostLabel({ projectId, appName: name });
  return appHosts === null || label === null ? null : `${label}.${appHosts}`;
}

/** Of an app that has no version yet, or that no node serves just now. */
function statusBefore(app: App, latest: Build | null): AppStatus {
  if (app.currentVersionId !== null) return "cold";
  if (!latest || latest.status === "pending" || latest.status === "cancelled") return "pending";
  return isFinalBuild(latest.status) ? "error" : "deploying";
}

function containersOf({ app, version, pool }: LiveApp, id: string): ContainerRecord[] {
  const now = Date.now();
  return [...pool.replicas].map((replica) => ({
    appId: id,
    projectId: app.projectId,
    containerId: replica.id,
    containerState: replica.state === "starting" ? "PENDING" : "RUNNING",
    pendingReason: replica.obstacle(),
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
