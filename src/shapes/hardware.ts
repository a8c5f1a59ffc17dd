import * as z from "zod/mini";

/** What apps can run on: the processors, and each model of GPU with how many there are. */
export const HARDWARE = z.array(
  z.object({
    name: z.string(),
    provider: z.string(),
    cpu: z.number(),
    memoryGb: z.number(),
    gpuCount: z.int(),
    /** Of one GPU, as its name has it: in GiB. Only GPUs have it. */
    gpuMemoryGb: z.optional(z.number()),
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

/** The GPUs of one machine, as it tells other nodes of them. */
export const NODE_GPUS = z.object({
  driver: z.nullable(text(200)),
  /** Why they cannot be used, or could not be asked for; null if all is well. */
  trouble: z.nullable(text(20_000)),
  gpus: z.array(GPU).check(z.maxLength(1_000)),
});
export type NodeGpus = z.infer<typeof NODE_GPUS>;

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
