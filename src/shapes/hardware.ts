import * as z from "zod/mini";
import { TIMESTAMP } from "./common.ts";

/** What apps can run on: the processors, and each model of GPU with how many there are. */
export const HARDWARE = z.array(
  z.object({
    name: z.string(),
    provider: z.string(),
    cpu: z.number(),
    memoryGb: z.number(),
    gpuCount: z.int(),
    /** Of one GPU, as its name has it: 80 for an H100. Only GPUs have it. */
    gpuMemoryGb: z.optional(z.number()),
    /** Why no GPU of the machine can be used, although it seems to have some. Only the processors have it. */
    gpuTrouble: z.optional(z.string()),
  }),
);
export type HardwareRow = z.infer<typeof HARDWARE>[number];

const text = (length: number) => z.string().check(z.maxLength(length));
const BYTES = z.int().check(z.nonnegative());
const MEASURED = z.nullable(z.number().check(z.nonnegative()));

/** A grant of a GPU to a replica. */
const HOLDER = z.object({
  appId: text(200),
  projectId: text(64),
  containerId: text(200),
  /** Its share of the GPU; null for all of it. */
  memoryBytes: z.nullable(BYTES),
  /** What its processes use of the GPU; null if they cannot be told from others. */
  usedBytes: z.nullable(BYTES),
});

/** A GPU as it is now. What it measures is null where the driver does not say. */
const GPU = z.object({
  uuid: text(128),
  index: z.int().check(z.nonnegative()),
  model: text(200),
  name: text(200),
  memoryBytes: BYTES,
  busId: text(64),
  isMig: z.boolean(),
  /** Why it is out of service, and what to do; null if it works. */
  fault: z.nullable(text(2_000)),
  usedBytes: z.nullable(BYTES),
  freeBytes: z.nullable(BYTES),
  /** Of its memory, by grants. */
  grantedBytes: BYTES,
  /** In percent. */
  utilization: MEASURED,
  watts: MEASURED,
  celsius: z.nullable(z.number()),
  holders: z.array(HOLDER).check(z.maxLength(10_000)),
});
export type GpuRecord = z.infer<typeof GPU>;

/** The last hour in steps. A list has a value for each, the most of the step; null where nothing is known. */
const HOUR = z.object({ from: TIMESTAMP, stepMs: z.int().check(z.positive()) });
const listOf = <Value extends z.core.$ZodType>(value: Value) => z.array(value).check(z.maxLength(1_000));
const APP = z.object({ appId: text(200), projectId: text(64) });

const HISTORY = z.extend(HOUR, {
  gpus: listOf(
    z.object({ uuid: text(128), usedBytes: listOf(z.nullable(BYTES)), utilization: listOf(MEASURED) }),
  ),
  /** The apps whose idle replicas were stopped because another one needed their GPUs, the oldest first. */
  evictions: listOf(z.object({ at: TIMESTAMP, gpus: listOf(text(128)), evicted: APP, by: APP })),
});

export type GpuHistoryRecord = z.infer<typeof HISTORY>;

/** The GPUs of one machine, as it tells other nodes of them. */
export const NODE_GPUS = z.object({
  driver: z.nullable(text(200)),
  /** Why they cannot be used, or could not be asked for; null if all is well. */
  trouble: z.nullable(text(20_000)),
  gpus: listOf(GPU),
  /** If it was asked for. */
  history: z.optional(HISTORY),
});
export type NodeGpus = z.infer<typeof NODE_GPUS>;

/** The GPUs that replicas of an app had in the last hour. */
export const APP_GPUS = z.extend(HOUR, {
  gpus: z.array(
    z.object({
      uuid: z.string(),
      /** Null if the GPU is gone. */
      model: z.nullable(z.string()),
      totalBytes: z.nullable(BYTES),
      /** In use of it while they had it, also by others. */
      usedBytes: z.array(z.nullable(BYTES)),
      /** What the replicas used themselves. */
      ownUsedBytes: z.array(z.nullable(BYTES)),
    }),
  ),
});
export type AppGpus = z.infer<typeof APP_GPUS>;

/** The machines of the installation, each with its GPUs. */
export const MACHINES = z.array(
  z.extend(NODE_GPUS, {
    nodeId: z.string(),
    name: z.string(),
    /** Whether it sent this answer. */
    isSelf: z.boolean(),
    cpus: z.number(),
    memoryBytes: z.number(),
  }),
);
export type MachineRecord = z.infer<typeof MACHINES>[number];
