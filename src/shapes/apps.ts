import * as z from "zod/mini";
import { TIMESTAMP } from "./common.ts";

const STATUS = z.enum(["ready", "cold", "pending", "deploying", "notready", "error"]);

/** A number as existing clients read it: a JSON string. */
const NUMERAL = z.string();

/** An app with the settings of the version that serves. */
export const APP = z.object({
  id: z.string(),
  createdAt: TIMESTAMP,
  updatedAt: TIMESTAMP,
  hardware: z.string(),
  cpu: NUMERAL,
  memory: NUMERAL,
  gpuCount: NUMERAL,
  /** Of each GPU, in GB; null for whole GPUs. */
  gpuMemory: z.nullish(NUMERAL),
  cooldownPeriodSeconds: NUMERAL,
  minReplicaCount: NUMERAL,
  maxReplicaCount: NUMERAL,
  responseGracePeriodSeconds: NUMERAL,
  status: STATUS,
  /** Why its latest replica could not start; null once one is ready. */
  startFailure: z.nullish(z.string()),
  lastBuildStatus: z.nullable(z.string()),
  latestBuildId: z.nullable(z.string()),
  /** The app's own host, if `app_hosts` gives it one. */
  host: z.nullish(z.string()),
});
export type AppRecord = z.infer<typeof APP>;
export type AppStatus = AppRecord["status"];

export const APPS = z.array(z.pick(APP, { id: true, status: true, createdAt: true, updatedAt: true }));
export type AppBrief = z.infer<typeof APPS>[number];

/** A machine is found, its image is there, `main.py` is imported, `setup()` ends. */
const START_PARTS = ["schedule", "pull", "import", "setup"] as const;
export type StartPart = { readonly phase: (typeof START_PARTS)[number]; readonly ms: number };

/** An app's replicas, which the API calls containers. */
export const CONTAINERS = z.array(
  z.object({
    appId: z.string(),
    projectId: z.string(),
    containerId: z.string(),
    containerState: z.enum(["RUNNING", "PENDING", "SUCCEEDED", "FAILED"]),
    /** Why it does not start, if known. */
    pendingReason: z.nullish(z.string()),
    timestamp: TIMESTAMP,
    containerStartTimestamp: TIMESTAMP,
    containerTerminationTimestamp: z.nullable(TIMESTAMP),
    containerRunningTimeMs: z.int(),
    /** How long its `setup()` took; null if it has none, or has not ended. */
    setupMs: z.nullish(z.number()),
    /** How its start went, in order, as far as it has come and is known: what `setupMs` says is its last part. */
    startPhases: z.nullish(z.array(z.object({ phase: z.enum(START_PARTS), ms: z.number() }))),
    /** The GPUs that it was granted, with its share of each; null for all of it. */
    gpus: z.nullish(
      z.array(
        z.object({
          uuid: z.string(),
          /** Null if the GPU is gone. */
          model: z.nullable(z.string()),
          memoryBytes: z.nullable(z.number()),
          /** Of the whole GPU, and what is in use of it, also by others; null if unknown. */
          totalBytes: z.nullish(z.number()),
          usedBytes: z.nullish(z.number()),
          /** What of that the replica uses; null if its processes cannot be told from others. */
          ownUsedBytes: z.nullish(z.number()),
        }),
      ),
    ),
    containerRestartCount: z.int(),
    hostIp: z.nullable(z.string()),
    containerIp: z.nullable(z.string()),
    hardwareProvider: z.nullable(z.string()),
    region: z.nullable(z.string()),
    buildId: z.string(),
    isTerminating: z.boolean(),
    /** Why it is being ended, if another app needs its place. */
    stopReason: z.nullish(z.string()),
  }),
);
export type ContainerRecord = z.infer<typeof CONTAINERS>[number];

/** A value of a key of an app's configuration. */
export const CONFIG_VALUE = z.union([
  z.string(),
  z.number(),
  z.boolean(),
  z.null(),
  z.array(z.string()),
  z.record(z.string(), z.string()),
]);
export type ConfigValue = z.infer<typeof CONFIG_VALUE>;

/** A key of an app's configuration with its current and its deployed value. */
const ENTRY = z.object({
  key: z.string(),
  value: CONFIG_VALUE,
  deployed: CONFIG_VALUE,
  unit: z.nullable(z.enum(["seconds", "bytes"])),
  takes: z.string(),
  meaning: z.string(),
});
export type ConfigEntry = z.infer<typeof ENTRY>;

export const CONFIGURATION = z.object({
  buildId: z.uuid(),
  version: z.int(),
  deployedAt: TIMESTAMP,
  keys: z.array(ENTRY),
});

/** The settings that can be changed without a deploy. */
export type Scaling = {
  readonly minReplicaCount: number;
  readonly maxReplicaCount: number;
  readonly replicaConcurrency: number;
  readonly cooldownPeriodSeconds: number;
  readonly responseGracePeriodSeconds: number;
};

export const NOTIFICATIONS = z.array(z.object({ message: z.string() }));

const JSON_SCHEMA = z.record(z.string(), z.unknown());

const contentOf = <Value extends z.core.$ZodType>(value: Value) =>
  z.object({ content: z.optional(z.record(z.string(), value)) });

const OPERATION = z.object({
  summary: z.optional(z.string()),
  description: z.optional(z.string()),
  requestBody: z.optional(contentOf(z.object({ schema: z.optional(JSON_SCHEMA) }))),
  responses: z.optional(z.record(z.string(), contentOf(z.unknown()))),
});

/** The parts of an app's own OpenAPI document that are needed to call its functions. */
export const APP_DOCUMENT = z.object({
  paths: z.record(z.string(), z.object({ post: z.optional(OPERATION) })),
  components: z.optional(z.object({ schemas: z.optional(z.record(z.string(), JSON_SCHEMA)) })),
});
export type AppDocument = z.infer<typeof APP_DOCUMENT>;
