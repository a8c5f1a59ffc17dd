import { z } from "zod";
import type { Catalog } from "../apps/catalog.ts";
import type { Deployer } from "../apps/deploys/deployer.ts";
import type { AppKey } from "../config/readers.ts";
import { SCALING_KEYS } from "../config/keys/scaling.ts";
import type { Audit } from "../identity/audit.ts";
import type { ScalingOverrides } from "../model/app.ts";
import { AppError } from "../model/errors.ts";
import { APP } from "../shapes/apps.ts";
import type { Scaling } from "../shapes/apps.ts";
import { ID } from "../shapes/common.ts";
import type { Store } from "../store/store.ts";
import { findApp } from "./api/find-app.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";
import { record } from "./api/record.ts";
import { APP_PATH } from "./api/schemas.ts";
import { appRecord } from "./apps.ts";
import type { AppParts } from "./apps.ts";

export type AppChangeParts = Pick<AppParts, "appHosts"> & {
  readonly store: Store;
  readonly catalog: Catalog;
  readonly deployer: Deployer;
  readonly audit: Pick<Audit, "record">;
};

const TAG = "Apps";
const PATH = "/v2/projects/{project_id}/apps/{app_id}";

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

/** What can be changed of an app without a new version. */
export function appChangeOperations(parts: AppChangeParts): AnyOperation[] {
  const { store, catalog, deployer, audit } = parts;
  return [
    operation({
      method: "PATCH",
      path: PATH,
      id: "changeApp",
      tag: TAG,
      summary: "Change an app's scaling now; the next deploy resets it",
      access: "deploy",
      params: APP_PATH,
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
          const problem = `must be at least minReplicaCount, which is ${minReplicas}`;
          const details = [{ field: "maxReplicaCount", problem }];
          throw new AppError("bad_request", { message: `maxReplicaCount: ${problem}`, details });
        }
        await catalog.changeScaling(app, overrides);
        const target = call.params.app_id;
        await record(audit, call, { action: "app.scale", target, before, after: overrides });
        return await appRecord(parts, await findApp(store, call.params));
      },
    }),
    operation({
      method: "POST",
      path: `${PATH}/rollback`,
      id: "rollBackApp",
      tag: TAG,
      summary: "Roll back to an earlier version; it is started before it gets calls",
      access: "deploy",
      params: APP_PATH,
      body: z.object({ buildId: z.uuid() }),
      response: APP,
      errors: ["app_not_found", "build_not_found", "app_not_ready"],
      handle: async (call) => {
        const app = await findApp(store, call.params);
        const buildId = call.body.buildId.toLowerCase();
        const version = await store.versions.find(buildId);
        if (version?.appNumber !== app.number) throw new AppError("build_not_found");
        await catalog.rollBack(app, buildId);
        const before = { buildId: app.currentVersionId };
        const target = call.params.app_id;
        await record(audit, call, { action: "app.rollback", target, before, after: { buildId } });
        return await appRecord(parts, await findApp(store, call.params));
      },
    }),
    operation({
      method: "POST",
      path: `${PATH}/restart`,
      id: "restartApp",
      tag: TAG,
      summary: "Replace an app's replicas, so that they see changed secrets; no call fails",
      access: "deploy",
      params: APP_PATH,
      response: APP,
      errors: ["app_not_found", "build_not_found", "app_not_ready"],
      handle: async (call) => {
        const app = await findApp(store, call.params);
        if (!catalog.byNumber(app.number)) throw noVersion();
        await catalog.restart(app);
        const target = call.params.app_id;
        await record(audit, call, { action: "app.restart", target, before: null, after: null });
        return await appRecord(parts, await findApp(store, call.params));
      },
    }),
    operation({
      method: "DELETE",
      path: PATH,
      id: "deleteApp",
      tag: TAG,
      summary: "Delete an app; runs in progress finish, and its name becomes free",
      access: "admin",
      params: APP_PATH,
      response: ID,
      errors: ["app_not_found"],
      handle: async (call) => {
        const app = await findApp(store, call.params);
        await deployer.cancelAll(app);
        await catalog.remove(app);
        const target = call.params.app_id;
        const before = { buildId: app.currentVersionId };
        await record(audit, call, { action: "app.delete", target, before, after: null });
        return { id: target };
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
