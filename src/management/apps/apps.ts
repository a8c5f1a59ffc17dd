import { z } from "zod";
import type { LiveApp } from "../../apps/versions/open-version.ts";
import { liveStatusOf } from "../../apps/versions/traffic.ts";
import type { AppKey, AppKeys } from "../../config/readers.ts";
import { SCALING_KEYS } from "../../config/keys/scaling.ts";
import { appId, hostLabel } from "../../model/names.ts";
import type { App, LiveStatus, ScalingOverrides } from "../../model/app.ts";
import { type Build, isFinalBuild } from "../../model/build.ts";
import { AppError } from "../../model/errors.ts";
import {
  APP,
  APPS,
  type ConfigEntry,
  CONFIGURATION,
  type ConfigValue,
  CONTAINERS,
} from "../../shapes/apps.ts";
import type { PoolReplica } from "../../replicas/pool.ts";
import type { AppRecord, AppStatus, ContainerRecord, Scaling, StartPart } from "../../shapes/apps.ts";
import { ID, timestamp } from "../../shapes/common.ts";
import { APP_GPUS, type AppGpus } from "../../shapes/hardware.ts";
import { badField, findApp } from "../api/inputs.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";
import { ANY_FUNCTION, BATCHING_KEYS, EXCLUDED_BY_STEPPER } from "../../config/keys/batching.ts";
import { CUSTOM_RUNTIME_KEYS, DEPENDENCY_KINDS, DEPENDENCY_PATH_KEYS } from "../../config/keys/build.ts";
import { DEPLOYMENT_KEYS } from "../../config/keys/deployment.ts";
import { HARDWARE_KEYS } from "../../config/keys/hardware.ts";
import { LIMITS_KEYS } from "../../config/keys/limits.ts";
import type { AppConfig } from "../../model/app-config.ts";

const operation = tagged("Apps");
const PATH = "/v2/projects/{project_id}/apps";
const APP_URL = `${PATH}/{app_id}` as const;

export function appOperations(parts: ManagementParts): Operation[] {
  const { store, catalog, liveStatuses } = parts;
  return [
    operation("GET", PATH, {
      id: "listApps",
      summary: "List a project's apps",
      access: "run",
      response: APPS,
      handle: async ({ projectId }) => {
        const [apps, live] = await Promise.all([store.apps.list(projectId), liveStatuses(projectId)]);
        const shown = apps.map(async (app) => {
          const state = live.get(app.number)?.state;
          return brief(app, state, state ? null : await store.builds.latest(app.number));
        });
        return await Promise.all(shown);
      },
    }),
    operation("GET", APP_URL, {
      id: "getApp",
      summary: "Get an app",
      access: "run",
      response: APP,
      errors: ["app_not_found"],
      handle: async ({ params }) => await appRecord(parts, await findApp(store, params)),
    }),
    operation("GET", `${APP_URL}/containers`, {
      id: "listContainers",
      summary: "List an app's replicas",
      access: "run",
      response: CONTAINERS,
      errors: ["app_not_found"],
      handle: async ({ params }) => {
        const { number } = await findApp(store, params);
        const grantedTo = grantsByReplica(parts.gpus);
        return catalog.versions(number).flatMap((live) => containersOf(live, params.app_id, grantedTo));
      },
    }),
    operation("GET", `${APP_URL}/gpus`, {
      id: "getAppGpus",
      summary: "Get the GPUs that an app's replicas had in the last hour, and how full they were",
      access: "run",
      response: APP_GPUS,
      errors: ["app_not_found"],
      handle: async ({ params }) => gpusOf(await findApp(store, params), parts.gpus),
    }),
  ];
}

/** An app with the settings of the version that serves, and the status of its last deploy. */
async function appRecord({ store, catalog, appHosts }: ManagementParts, app: App): Promise<AppRecord> {
  const live = catalog.byNumber(app.number);
  const state = liveStatusOf(catalog.versions(app.number))?.state;
  const latest = await store.builds.latest(app.number);
  const { hardware, scaling } = live?.version.config ?? {};
  const label = hostLabel({ projectId: app.projectId, appName: app.name });
  return {
    ...brief(app, state, latest),
    startFailure: live?.pool.fleet.startFailure?.message ?? null,
    hardware: hardware?.compute.join(",") ?? "CPU",
    cpu: String(hardware?.cpu ?? 0),
    memory: String(hardware?.memoryGb ?? 0),
    gpuCount: String(hardware?.gpuCount ?? 0),
    gpuMemory: hardware?.gpuMemoryGb ? String(hardware.gpuMemoryGb) : null,
    cooldownPeriodSeconds: String(scaling?.cooldownSeconds ?? 0),
    minReplicaCount: String(scaling?.minReplicas ?? 0),
    maxReplicaCount: String(scaling?.maxReplicas ?? 0),
    responseGracePeriodSeconds: String(scaling?.responseGracePeriodSeconds ?? 0),
    lastBuildStatus: latest?.status ?? null,
    latestBuildId: latest?.id ?? null,
    host: appHosts === null || label === null ? null : `${label}.${appHosts}`,
  };
}

function brief(app: App, state: LiveStatus["state"] | undefined, latest: Build | null) {
  return {
    id: appId(app.projectId, app.name),
    status: state ?? statusBefore(app, latest),
    createdAt: timestamp(app.createdAt),
    updatedAt: timestamp(app.updatedAt),
  };
}

/** Of an app that has no version yet, or that no node serves just now. */
function statusBefore(app: App, latest: Build | null): AppStatus {
  if (app.currentVersionId !== null) return "cold";
  if (!latest || latest.status === "pending" || latest.status === "cancelled") return "pending";
  return isFinalBuild(latest.status) ? "error" : "deploying";
}

type GrantedTo = (replicaId: string) => NonNullable<ContainerRecord["gpus"]>;

function grantsByReplica({ source, grants }: ManagementParts["gpus"]): GrantedTo {
  const gpus = new Map(source.current().gpus.map((gpu) => [gpu.uuid, gpu]));
  const readings = new Map(source.readings().map((reading) => [reading.uuid, reading]));
  const held = Map.groupBy(grants(), ({ replicaId }) => replicaId);
  return (replicaId) =>
    (held.get(replicaId) ?? []).map(({ gpu: uuid, memoryBytes, usedBytes: ownUsedBytes }) => ({
      uuid,
      model: gpus.get(uuid)?.model ?? null,
      memoryBytes,
      totalBytes: gpus.get(uuid)?.memoryBytes ?? null,
      usedBytes: readings.get(uuid)?.usedBytes ?? null,
      ownUsedBytes,
    }));
}

function gpusOf({ projectId, name }: App, { source, history }: ManagementParts["gpus"]): AppGpus {
  const { fromMs, stepMs, gpus } = history.ofApp({ projectId, app: name });
  const known = new Map(source.current().gpus.map((gpu) => [gpu.uuid, gpu]));
  const had = Array.from(gpus, ([uuid, uses]) => ({
    uuid,
    model: known.get(uuid)?.model ?? null,
    totalBytes: known.get(uuid)?.memoryBytes ?? null,
    usedBytes: uses.map((use) => use?.usedBytes ?? null),
    ownUsedBytes: uses.map((use) => use?.ownUsedBytes ?? null),
  }));
  return { from: timestamp(fromMs), stepMs, gpus: had };
}

/** What is known of a replica's start: what did not happen, as on a machine that is already there, is left out. */
function startPhasesOf(replica: PoolReplica): StartPart[] {
  const { begunAt = 0, scheduledAt = 0, pulledAt = 0, importedAt = 0 } = replica.startTimes?.() ?? {};
  const placedAt = scheduledAt || begunAt;
  return [
    { phase: "schedule" as const, ms: scheduledAt - begunAt },
    { phase: "pull" as const, ms: pulledAt - placedAt },
    { phase: "import" as const, ms: importedAt - (pulledAt || placedAt) },
    { phase: "setup" as const, ms: replica.setupMs ?? 0 },
  ].filter(({ ms }) => ms > 0);
}

function containersOf({ app, version, pool }: LiveApp, id: string, grantedTo: GrantedTo): ContainerRecord[] {
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
    setupMs: replica.setupMs,
    startPhases: startPhasesOf(replica),
    gpus: grantedTo(replica.id),
    containerRestartCount: 0,
    hostIp: null,
    containerIp: null,
    hardwareProvider: version.config.hardware.provider,
    region: version.config.hardware.region,
    buildId: version.id,
    isTerminating: replica.state === "draining",
    stopReason: pool.fleet.stopReason(replica),
  }));
}

type StatusSource = {
  liveStatuses(projectId: string): readonly LiveStatus[] | Promise<readonly LiveStatus[]>;
};

/** Reads the status of a project's apps from this service, and from the other nodes if there are any. */
export function liveStatusesBy(...served: readonly (StatusSource | null)[]): ManagementParts["liveStatuses"] {
  return async (projectId) => {
    const parts = await Promise.all(served.map(async (each) => (await each?.liveStatuses(projectId)) ?? []));
    return new Map(parts.flat().map((status) => [status.appNumber, status]));
  };
}

const NUMERAL = /^\d+(\.\d+)?$/;

const SETTINGS = z.object({
  cooldownPeriodSeconds: setting(SCALING_KEYS.cooldownSeconds),
  minReplicaCount: setting(SCALING_KEYS.minReplicas),
  maxReplicaCount: setting(SCALING_KEYS.maxReplicas),
  responseGracePeriodSeconds: setting(SCALING_KEYS.responseGracePeriodSeconds),
  replicaConcurrency: setting(SCALING_KEYS.replicaConcurrency),
} satisfies Record<keyof Scaling, z.ZodType>);

/** A number, or one as `GET` shows it, within the bounds that the app's configuration has. */
function setting({ reader }: AppKey<number>) {
  return z
    .union([z.number(), z.string().max(20)])
    .transform((value) => (typeof value === "string" && !NUMERAL.test(value) ? Number.NaN : Number(value)))
    .refine((value) => reader.read(value) !== undefined, `must be ${reader.expects}`)
    .nullish();
}

/** Changes of an app that need no new version, and its configuration, key by key as in its file. */
export function appChangeOperations(parts: ManagementParts): Operation[] {
  const { store, catalog, deployer } = parts;
  return [
    operation("PATCH", APP_URL, {
      id: "changeApp",
      summary: "Change an app's scaling now; the next deploy resets it",
      access: "deploy",
      body: SETTINGS,
      response: APP,
      errors: ["app_not_found", "build_not_found"],
      handle: async (call) => {
        const app = await findApp(store, call.params);
        const live = catalog.byNumber(app.number);
        if (!live) throw noVersion();
        const { config, overrides: before } = live.version;
        const overrides = { ...before, ...overridesOf(call.body) };
        const { minReplicas, maxReplicas } = { ...config.scaling, ...overrides };
        if (maxReplicas < minReplicas) {
          throw badField("maxReplicaCount", `must be at least minReplicaCount, which is ${minReplicas}`);
        }
        const scaling = { ...config.scaling, ...overrides };
        const excess = catalog.gpuRoom.refusal(app, { ...config, scaling });
        if (minReplicas > config.scaling.minReplicas && excess !== null)
          throw badField("minReplicaCount", excess);
        const leaveRoom = catalog.gpuRoom.keep(app, { ...config, scaling });
        try {
          await catalog.switcher.changeScaling(app, overrides);
        } finally {
          leaveRoom();
        }
        await call.record("app.scale", call.params.app_id, { before, after: overrides });
        return await appRecord(parts, await findApp(store, call.params));
      },
    }),
    operation("POST", `${APP_URL}/rollback`, {
      id: "rollBackApp",
      summary: "Roll back to an earlier version; it is started before it gets calls",
      access: "deploy",
      body: z.object({ buildId: z.uuid() }),
      response: APP,
      errors: ["app_not_found", "build_not_found", "app_not_ready"],
      handle: async (call) => {
        const app = await findApp(store, call.params);
        const buildId = call.body.buildId.toLowerCase();
        const version = await store.versions.find(buildId);
        if (version?.appNumber !== app.number) throw new AppError("build_not_found");
        await catalog.switcher.rollBack(app, buildId);
        const before = { buildId: app.currentVersionId };
        await call.record("app.rollback", call.params.app_id, { before, after: { buildId } });
        return await appRecord(parts, await findApp(store, call.params));
      },
    }),
    operation("POST", `${APP_URL}/restart`, {
      id: "restartApp",
      summary: "Replace an app's replicas, so that they see changed secrets; no call fails",
      access: "deploy",
      response: APP,
      errors: ["app_not_found", "build_not_found", "app_not_ready"],
      handle: async (call) => {
        const app = await findApp(store, call.params);
        if (!catalog.byNumber(app.number)) throw noVersion();
        await catalog.switcher.restart(app);
        await call.record("app.restart", call.params.app_id);
        return await appRecord(parts, await findApp(store, call.params));
      },
    }),
    operation("DELETE", APP_URL, {
      id: "deleteApp",
      summary: "Delete an app; runs in progress finish, and its name becomes free",
      access: "admin",
      response: ID,
      errors: ["app_not_found"],
      handle: async (call) => {
        const app = await findApp(store, call.params);
        await deployer.cancelAll(app);
        await catalog.remove(app);
        const { app_id: id } = call.params;
        await call.record("app.delete", id, { before: { buildId: app.currentVersionId } });
        return { id };
      },
    }),
    operation("GET", `${APP_URL}/configuration`, {
      id: "getConfiguration",
      summary: "Get an app's configuration, key by key: the value in effect and the one deployed",
      access: "deploy",
      response: CONFIGURATION,
      errors: ["app_not_found", "build_not_found"],
      handle: async ({ params }) => {
        const app = await findApp(store, params);
        const live = catalog.byNumber(app.number);
        if (!live) throw noVersion();
        const { id, number: version, createdAt, config } = live.version;
        const deployed = (await store.versions.findDeployed(id)) ?? config;
        return { buildId: id, version, deployedAt: timestamp(createdAt), keys: entriesOf(config, deployed) };
      },
    }),
  ];
}

function noVersion(): AppError {
  return new AppError("build_not_found", { message: "The app has no version yet; deploy it first." });
}

function overridesOf(body: z.output<typeof SETTINGS>): ScalingOverrides {
  const overrides: Record<keyof Required<ScalingOverrides>, number | null | undefined> = {
    cooldownSeconds: body.cooldownPeriodSeconds,
    minReplicas: body.minReplicaCount,
    maxReplicas: body.maxReplicaCount,
    responseGracePeriodSeconds: body.responseGracePeriodSeconds,
    replicaConcurrency: body.replicaConcurrency,
  };
  const given = Object.entries(overrides).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(given);
}

const PACKAGES = { pip: "Python", apt: "system", conda: "Conda" } as const;

/** An app's configuration, key by key as in its file. */
export function entriesOf(now: AppConfig, deployed: AppConfig): ConfigEntry[] {
  const custom = now.customRuntime;
  return [
    ...tableOf(SCALING_KEYS, now.scaling, deployed.scaling),
    ...tableOf(DEPLOYMENT_KEYS, now.deployment),
    ...tableOf(HARDWARE_KEYS, now.hardware),
    ...tableOf(LIMITS_KEYS, now.limits),
    ...batchedIn(now),
    ...DEPENDENCY_KINDS.map((kind) => packagesOf(kind, now)),
    ...tableOf(DEPENDENCY_PATH_KEYS, now.dependencies.paths),
    ...(custom ? tableOf(CUSTOM_RUNTIME_KEYS, custom) : []),
  ];
}

function tableOf<C extends object>(keys: AppKeys<C>, now: C, deployed = now): ConfigEntry[] {
  return Object.entries<AppKey<unknown>>(keys).map(([field, { path, reader, meaning }]) => ({
    key: path,
    value: valueIn(now, field),
    deployed: valueIn(deployed, field),
    unit: field.endsWith("Seconds") ? "seconds" : field.endsWith("Bytes") ? "bytes" : null,
    takes: reader.expects,
    meaning,
  }));
}

function valueIn(table: object, field: string): ConfigValue {
  return (table as Readonly<Record<string, ConfigValue>>)[field] ?? null;
}

function batchedIn({ batching = {} }: AppConfig): ConfigEntry[] {
  return Object.entries(batching).flatMap(([functionName, config]) => {
    const excluded =
      config.stepper === null ? [] : EXCLUDED_BY_STEPPER.map((field) => BATCHING_KEYS[field].path);
    return tableOf(BATCHING_KEYS, config)
      .filter(({ key }) => !excluded.includes(key))
      .map((entry) => ({ ...entry, key: entry.key.replace(ANY_FUNCTION, functionName) }));
  });
}

function packagesOf(kind: (typeof DEPENDENCY_KINDS)[number], { dependencies }: AppConfig): ConfigEntry {
  const value = dependencies[kind];
  return {
    key: `dependencies.${kind}`,
    value,
    deployed: value,
    unit: null,
    takes: "a table of names and versions",
    meaning: `The ${PACKAGES[kind]} packages that are installed.`,
  };
}
