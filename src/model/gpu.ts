/** A GPU of a machine, or a MIG instance, which counts as a GPU of its own. */
export type Gpu = {
  /** As the driver gives it: `GPU-…`, or `MIG-…`. */
  readonly uuid: string;
  /** Its number on the machine, in the order of PCI bus ids; of a MIG instance that of its GPU. */
  readonly index: number;
  /** As people write it: `H100`, `RTX4090`, `H100-1g.10gb`. */
  readonly model: string;
  /** As the driver names it: `NVIDIA H100 80GB HBM3`. */
  readonly name: string;
  readonly memoryBytes: number;
  readonly busId: string;
  /** Device files that only its users need, such as `/dev/nvidia0`. None if it is made up for tests. */
  readonly files: readonly string[];
  readonly isMig: boolean;
  /** Why it is out of service, and what to do; null if it works. */
  readonly fault: string | null;
};

/** The part of a GPU by which it is chosen. */
export type GpuKind = Pick<Gpu, "model" | "memoryBytes">;

/** What a GPU does at a moment; null where the driver does not say. */
export type GpuReading = {
  readonly uuid: string;
  readonly usedBytes: number | null;
  readonly freeBytes: number | null;
  readonly utilization: number | null;
  readonly watts: number | null;
  readonly celsius: number | null;
  /** Processes that hold memory of it, by the ids of the host; null if they cannot be told. */
  readonly processes: readonly { readonly pid: number; readonly usedBytes: number | null }[] | null;
};

/** The GPUs of a machine, as they are now. */
export type MachineGpus = {
  /** Of the driver; null without one. */
  readonly driver: string | null;
  /** In the order of PCI bus ids. */
  readonly gpus: readonly Gpu[];
  /** Why no GPU can be used though there seem to be some; null if all is well. */
  readonly trouble: string | null;
  /** There are GPUs, and the driver does not answer: apps that ask for one fail, and do not run on the CPU instead. */
  readonly isDown?: true;
};

/** What a replica asks for. */
export type GpuWish = {
  /** In order of preference, as people write them; "ANY" matches each. Never empty. */
  readonly models: readonly string[];
  readonly count: number;
  /** Of each GPU; null for whole GPUs. */
  readonly memoryBytes: number | null;
  /** It is content with the CPU where no GPU can ever serve it. */
  readonly mayUseCpu?: true;
};

/** What a replica was granted, until it is gone. */
export type GpuGrant = {
  readonly gpus: readonly Gpu[];
  /** Its share of each GPU; null for all of it. */
  readonly memoryBytes: number | null;
};

/** A GPU, or a share of one, that a replica was granted and that is not back yet. */
export type HeldGpu = {
  /** By its UUID. */
  readonly gpu: string;
  readonly app: string;
  readonly projectId: string;
  readonly replicaId: string;
  /** Null for all of it. */
  readonly memoryBytes: number | null;
  /** What its processes hold; null where they cannot be told from others. */
  readonly usedBytes: number | null;
};

type AppName = { readonly projectId: string; readonly app: string };

/** An idle replica that was stopped because one of another app needed its GPUs. */
export type GpuEviction = {
  readonly atMs: number;
  /** By their UUIDs. */
  readonly gpus: readonly string[];
  readonly evicted: AppName;
  readonly by: AppName;
};
