import { availableParallelism } from "node:os";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type {
  AppConfig,
  BatchingConfig,
  CustomRuntimeConfig,
  DependenciesConfig,
} from "../model/app-config.ts";
import { COG_FILE, type CogModel, readCog } from "./cog.ts";
import { findIn, partnerOf, partnerRefusal, PARTNERS, payloadLayer, tomlLayer } from "./app-shape.ts";
import type { Layer } from "./app-shape.ts";
import { isTable, readConfigFile } from "./toml.ts";
import {
  BATCHING_KEYS,
  batchedFunction,
  EXCLUDED_BY_STEPPER,
  MAX_BATCHED_FUNCTIONS,
} from "./keys/batching.ts";
import {
  CUSTOM_RUNTIME_KEYS,
  DEPENDENCY_KINDS,
  DEPENDENCY_PATH_KEYS,
  packageName,
  versionSpec,
} from "./keys/build.ts";
import { DEPLOYMENT_KEYS } from "./keys/deployment.ts";
import { HARDWARE_KEYS } from "./keys/hardware.ts";
import { type AppKey, type AppKeys, type Host, oneOf } from "./readers.ts";
import { LIMITS_KEYS } from "./keys/limits.ts";
import { QUEUE_KEYS } from "./keys/queue.ts";
import { BATCHES_KEYS } from "./keys/batches.ts";
import { RETRY_KEYS } from "./keys/retry.ts";
import { SCALING_KEYS } from "./keys/scaling.ts";
import { SCHEDULE_KEYS } from "./keys/schedules.ts";
import { MAX_CONFIG_SCHEDULES, type ScheduleConfig } from "../model/schedule.ts";
import { SETUP_FUNCTION } from "../model/names.ts";
import { ConfigError, Problems, showKey } from "./problems.ts";

/** Where an app's configuration comes from: payload over `cerebrium_toml` in it over file over defaults. */
type AppConfigSources = {
  /** The body of a deploy call, unchecked. */
  readonly payload?: unknown;
  readonly toml?: { readonly text: string; readonly fileName: string } | undefined;
  /** The text of a `cog.yaml`, if the folder is a Cog model. */
  readonly cog?: string | undefined;
  /** This machine if absent. */
  readonly host?: Host;
};

const FILE_NAMES = ["millrace.toml", "cerebrium.toml"] as const;
const SUBJECT = "The app's configuration";
const EXPERIMENTAL_IGNORED =
  "[experimental] is ignored: its keys are for the hosted platform. Replicas here start as forks of a process that has imported the app, without a checkpoint";

/** An app's configuration, and what is odd about it. `cog` if it is a Cog model. */
export type LoadedConfig = {
  readonly config: AppConfig;
  readonly warnings: string[];
  readonly cog: CogModel | null;
};

/** Reads an app's whole configuration; throws one ConfigError with all problems. */
export function readAppConfig(sources: AppConfigSources): LoadedConfig {
  const problems = new Problems();
  const cog = sources.cog === undefined ? null : readCog(sources.cog, problems);
  const layers = layersOf(sources, problems);
  if (cog !== null) layers.push(cog.layer);
  const { host = { cpuCount: availableParallelism() } } = sources;
  const read = <C>(keys: AppKeys<C>): C => readTable(keys, layers, host, problems);
  const deployment = read(DEPLOYMENT_KEYS);
  const hardware = read(HARDWARE_KEYS);
  const scaling = read(SCALING_KEYS);
  const isNamed = (key: AppKey<number>): boolean => findIn(layers, key) !== undefined;
  const batching = readBatching(layers, host, problems);
  const config: AppConfig = {
    deployment,
    hardware,
    named: {
      cpu: isNamed(HARDWARE_KEYS.cpu) ? hardware.cpu : null,
      memoryGb: isNamed(HARDWARE_KEYS.memoryGb) ? hardware.memoryGb : null,
      templateKeepSeconds: isNamed(SCALING_KEYS.templateKeepSeconds) ? scaling.templateKeepSeconds : null,
    },
    scaling,
    limits: read(LIMITS_KEYS),
    dependencies: readDependencies(layers, read(DEPENDENCY_PATH_KEYS), problems),
    ...(batching && { batching }),
    ...(findIn(layers, { path: "batches" }) && { batches: read(BATCHES_KEYS) }),
    ...(findIn(layers, { path: "retry" }) && { retry: read(RETRY_KEYS) }),
    ...(findIn(layers, { path: "queue" }) && { queue: read(QUEUE_KEYS) }),
    ...readSchedules(layers, host, problems),
    customRuntime: readCustomRuntime(layers, read, problems),
  };
  checkBatching(config, layers, problems);
  checkSchedules(config, layers, problems);
  if (findIn(layers, { path: "experimental" })) problems.warn(EXPERIMENTAL_IGNORED);
  const { minReplicas, maxReplicas } = config.scaling;
  if (maxReplicas < minReplicas) {
    const name = findIn(layers, SCALING_KEYS.maxReplicas)?.name ?? SCALING_KEYS.maxReplicas.path;
    problems.misfit(name, `at least min_replicas, which is ${minReplicas}`, maxReplicas);
  }
  checkRetry(config, layers, problems);
  problems.throwIfAny(SUBJECT);
  return { config, warnings: problems.warnings, cog };
}

/** Reads the configuration of the app in a folder: `millrace.toml` before `cerebrium.toml`, and neither is fine. */
export function loadAppConfig(
  dir: string,
  sources: Omit<AppConfigSources, "toml" | "cog"> = {},
): LoadedConfig {
  const found: NonNullable<AppConfigSources["toml"]>[] = [];
  for (const fileName of FILE_NAMES) {
    const file = readConfigFile(join(dir, fileName));
    if (file.kind === "text") found.push({ text: file.text, fileName });
    else if (file.kind === "unusable" && found.length === 0) {
      throw new ConfigError(SUBJECT, [`${fileName} ${file.reason}`]);
    }
  }
  const ignored = found.length > 1 ? [`${FILE_NAMES[0]} is used; ${FILE_NAMES[1]} is ignored`] : [];
  const own = readAppConfig({ ...sources, toml: found[0] });
  const isServer = own.config.customRuntime !== null;
  const hasCog = !isServer && existsSync(join(dir, COG_FILE));
  const hasMain = existsSync(join(dir, "main.py"));
  if (hasCog && hasMain) ignored.push(COG_IGNORED);
  const isCog = hasCog && !hasMain;
  const { config, warnings, cog } = isCog
    ? readAppConfig({ ...sources, toml: found[0], cog: cogText(dir) })
    : own;
  if (cog !== null && !existsSync(join(dir, cog.file)))
    throw new ConfigError(SUBJECT, [`${COG_FILE} names ${cog.file}, but the folder has no such file`]);
  const hidden = isServer ? [] : OWN_HELPERS.filter((file) => existsSync(join(dir, file)));
  const hides = hidden.map(
    (file) =>
      `${file} is imported instead of the service's module millrace, which has millrace.run: rename it`,
  );
  return { config, warnings: [...ignored, ...warnings, ...hides], cog };
}

const COG_IGNORED = `${COG_FILE} is not used, because the folder has a main.py: rename that to deploy the Cog model`;

/** The text of a folder's `cog.yaml`. */
function cogText(dir: string): string {
  const file = readConfigFile(join(dir, COG_FILE));
  if (file.kind === "text") return file.text;
  const reason = file.kind === "unusable" ? file.reason : "is gone";
  throw new ConfigError(SUBJECT, [`${COG_FILE} ${reason}`]);
}

/** What Python imports as `millrace` before the helper module that the harness brings. */
const OWN_HELPERS = ["millrace/__init__.py", "millrace.py"] as const;

/** Strongest first. */
function layersOf({ payload, toml }: AppConfigSources, problems: Problems): Layer[] {
  const layers: (Layer | null)[] = [];
  if (isTable(payload)) {
    layers.push(payloadLayer(payload));
    const text = Object.hasOwn(payload, "cerebrium_toml") ? payload["cerebrium_toml"] : undefined;
    if (typeof text === "string") layers.push(tomlLayer(text, "cerebrium_toml", problems));
    else if (text !== undefined && text !== null) {
      problems.misfit("cerebrium_toml", "the text of a TOML file", text);
    }
  } else if (payload !== undefined) {
    problems.misfit("the payload", "an object", payload);
  }
  if (toml !== undefined) layers.push(tomlLayer(toml.text, toml.fileName, problems));
  return layers.filter((layer) => layer !== null);
}

function readTable<C>(keys: AppKeys<C>, layers: readonly Layer[], host: Host, problems: Problems): C {
  const table: Record<string, unknown> = {};
  for (const [field, key] of Object.entries<AppKey<unknown>>(keys)) {
    const given = findIn(layers, key);
    const usual = typeof key.default === "function" ? key.default(host, table) : (key.default ?? null);
    const { name, raw } = given ?? { name: key.path, raw: usual };
    table[field] = problems.read(key.reader, name, raw);
  }
  // Every field was read or its problem is on the list, and then nothing is returned.
  return table as C;
}

function readDependencies(
  layers: readonly Layer[],
  paths: DependenciesConfig["paths"],
  problems: Problems,
): DependenciesConfig {
  const [pip = {}, apt = {}, conda = {}] = DEPENDENCY_KINDS.map((kind): Record<string, string> => {
    const given = findIn(layers, { path: `dependencies.${kind}` });
    // A value that is no table was reported with the shape of its file.
    if (given === undefined || !isTable(given.raw)) return {};
    if (paths[kind]) problems.warn(`dependencies.paths.${kind} is used; ${given.name} is ignored`);
    const packages = Object.entries(given.raw).map(([name, spec]): [string, string] => {
      problems.read(packageName, `each name in ${given.name}`, name);
      return [name, problems.read(versionSpec, `${given.name}.${showKey(name)}`, spec) ?? ""];
    });
    return Object.fromEntries(packages);
  });
  return { pip, apt, conda, paths };
}

const BATCHING = { path: "batching" };

/** The tables of the strongest layer that has `[batching]`; undefined if there are none. */
function readBatching(
  layers: readonly Layer[],
  host: Host,
  problems: Problems,
): AppConfig["batching"] | undefined {
  const given = findIn(layers, BATCHING);
  // What should be a table and is not was reported with the shape of its file.
  const tables = given && isTable(given.raw) ? Object.entries(given.raw) : [];
  if (given === undefined || tables.length === 0) return undefined;
  if (tables.length > MAX_BATCHED_FUNCTIONS) {
    problems.add(
      `${given.name} has ${tables.length} tables, but at most ${MAX_BATCHED_FUNCTIONS} functions can be batched`,
    );
    return undefined;
  }
  const functions = tables.map(([functionName, table]): [string, BatchingConfig] => {
    problems.read(batchedFunction, `each name in ${given.name}`, functionName);
    const name = `${given.name}.${showKey(functionName)}`;
    const members: Layer = ({ path }) => {
      const member = path.slice(path.lastIndexOf(".") + 1);
      const raw = isTable(table) && Object.hasOwn(table, member) ? table[member] : undefined;
      return raw === undefined ? undefined : { name: `${name}.${member}`, raw };
    };
    const excluded = EXCLUDED_BY_STEPPER.flatMap((field) => members(BATCHING_KEYS[field])?.name ?? []);
    const config = readTable(BATCHING_KEYS, [members], host, problems);
    if (config.stepper && excluded.length > 0)
      problems.add(
        `${excluded.join(", ")} cannot be set beside ${name}.stepper, which takes each call as soon as it has room: remove what it excludes`,
      );
    return [functionName, config];
  });
  return Object.fromEntries(functions);
}

/** Finds batches that could never run or never fill. */
function checkBatching(
  { batching = {}, scaling, customRuntime }: AppConfig,
  layers: readonly Layer[],
  problems: Problems,
): void {
  const name = findIn(layers, BATCHING)?.name ?? BATCHING.path;
  const functions = Object.entries(batching);
  if (functions.length > 0 && customRuntime !== null)
    problems.add(`${name} is for functions of main.py, and a server app has none: remove it`);
  const queue = findIn(layers, SCALING_KEYS.maxQueue)?.name ?? SCALING_KEYS.maxQueue.path;
  for (const [functionName, { maxSize, size, stepper }] of functions) {
    // A call may count as more than one.
    if (size !== null || stepper !== null || maxSize <= scaling.maxQueue) continue;
    problems.warn(
      `${name}.${functionName}.max_size is ${maxSize}, but ${queue} lets only ${scaling.maxQueue} callers wait: batches of more than ${scaling.maxQueue} cannot fill`,
    );
  }
}

/** Finds a first wait that the longest one would cut short. */
function checkRetry({ retry }: AppConfig, layers: readonly Layer[], problems: Problems): void {
  const given = findIn(layers, RETRY_KEYS.initialDelaySeconds);
  if (given && retry && retry.initialDelaySeconds > retry.maxDelaySeconds)
    problems.misfit(given.name, `at most retry.max_delay, which is ${retry.maxDelaySeconds} s`, given.raw);
}

const RUNTIME = { path: "runtime.custom", payload: "runtime" };

const SCHEDULES = { path: "schedules" };

/** The list of the strongest layer that has `[[schedules]]`; nothing if there is none. */
function readSchedules(
  layers: readonly Layer[],
  host: Host,
  problems: Problems,
): Pick<AppConfig, "schedules"> {
  const given = findIn(layers, SCHEDULES);
  // What should be a list of tables and is not was reported with the shape of its file.
  const tables = given && Array.isArray(given.raw) ? (given.raw as unknown[]).filter(isTable) : [];
  if (given === undefined || tables.length === 0) return {};
  if (tables.length > MAX_CONFIG_SCHEDULES) {
    problems.add(
      `${given.name} has ${tables.length} schedules, but an app can have at most ${MAX_CONFIG_SCHEDULES}`,
    );
    return {};
  }
  const names = new Map<string, string>();
  const schedules = tables.map((table, i): ScheduleConfig => {
    const place = `${given.name}[${i}]`;
    const members: Layer = ({ path }) => {
      const member = path.slice(path.lastIndexOf(".") + 1);
      // The one that is required is named where it is missing.
      const missing = member === "cron" ? null : undefined;
      const raw = Object.hasOwn(table, member) ? table[member] : missing;
      return raw === undefined ? undefined : { name: `${place}.${member}`, raw };
    };
    const { name: ownName, ...spec } = readTable(SCHEDULE_KEYS, [members], host, problems);
    const name = ownName ?? spec.functionName;
    const before = names.get(name);
    if (before !== undefined)
      problems.add(`${place} and ${before} are both named ${showKey(name)}: give one of them another name`);
    else names.set(name, place);
    return { name, ...spec };
  });
  return { schedules };
}

/** Finds schedules that could never call anything. */
function checkSchedules(
  { schedules = [], customRuntime }: AppConfig,
  layers: readonly Layer[],
  problems: Problems,
): void {
  const name = findIn(layers, SCHEDULES)?.name ?? SCHEDULES.path;
  if (schedules.length > 0 && customRuntime !== null)
    problems.add(`${name} calls functions of main.py, and a server app has none: remove it`);
  schedules.forEach(({ functionName }, i) => {
    if (functionName === SETUP_FUNCTION)
      problems.add(`${name}[${i}].function cannot be setup, which runs by itself at each start of a replica`);
  });
}

/** The payload names its runtime; in a file, the table is enough. */
function readCustomRuntime(
  layers: readonly Layer[],
  read: (keys: AppKeys<CustomRuntimeConfig>) => CustomRuntimeConfig,
  problems: Problems,
): CustomRuntimeConfig | null {
  const given = findIn(layers, RUNTIME);
  const isNamed = given?.name === RUNTIME.payload;
  const partner = isNamed
    ? partnerOf(given.raw)
    : PARTNERS.find((name) => findIn(layers, { path: `runtime.${name}` }) !== undefined);
  if (partner !== undefined) {
    problems.add(partnerRefusal(isNamed ? `runtime = "${partner}"` : `[runtime.${partner}]`));
    return null;
  }
  if (given === undefined) return null;
  if (!isNamed) return read(CUSTOM_RUNTIME_KEYS);
  return problems.read(oneOf(["cortex", "custom"]), given.name, given.raw) === "custom"
    ? read(CUSTOM_RUNTIME_KEYS)
    : null;
}
