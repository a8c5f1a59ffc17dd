import { CUSTOM_RUNTIME_KEYS, DEPENDENCY_KINDS, DEPENDENCY_PATH_KEYS } from "../../config/keys/build.ts";
import { DEPLOYMENT_KEYS } from "../../config/keys/deployment.ts";
import { HARDWARE_KEYS } from "../../config/keys/hardware.ts";
import type { AppKey, AppKeys } from "../../config/readers.ts";
import { LIMITS_KEYS } from "../../config/keys/limits.ts";
import { SCALING_KEYS } from "../../config/keys/scaling.ts";
import type { AppConfig } from "../../model/app-config.ts";
import { AppError } from "../../model/errors.ts";
import { type ConfigEntry, CONFIGURATION, type ConfigValue } from "../../shapes/apps.ts";
import { timestamp } from "../../shapes/common.ts";
import { findApp } from "../api/inputs.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const operation = tagged("Apps");

const PACKAGES = { pip: "Python", apt: "system", conda: "Conda" } as const;

/** An app's configuration, key by key as in its file. */
export function configurationOperations({ store, catalog }: ManagementParts): Operation[] {
  return [
    operation("GET", "/v2/projects/{project_id}/apps/{app_id}/configuration", {
      id: "getConfiguration",
      summary: "Get an app's configuration, key by key: the value in effect and the one deployed",
      access: "deploy",
      response: CONFIGURATION,
      errors: ["app_not_found", "build_not_found"],
      handle: async ({ params }) => {
        const app = await findApp(store, params);
        const live = catalog.byNumber(app.number);
        if (!live)
          throw new AppError("build_not_found", { message: "The app has no version yet; deploy it first." });
        const { id, number, createdAt, config } = live.version;
        const deployed = (await store.versions.findDeployed(id)) ?? config;
        return {
          buildId: id,
          version: number,
          deployedAt: timestamp(createdAt),
          keys: entriesOf(config, deployed),
        };
      },
    }),
  ];
}

function entriesOf(now: AppConfig, deployed: AppConfig): ConfigEntry[] {
  const custom = now.customRuntime;
  return [
    ...tableOf(SCALING_KEYS, now.scaling, deployed.scaling),
    ...tableOf(DEPLOYMENT_KEYS, now.deployment),
    ...tableOf(HARDWARE_KEYS, now.hardware),
    ...tableOf(LIMITS_KEYS, now.limits),
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
