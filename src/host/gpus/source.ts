import type { GpuReading, MachineGpus } from "../../model/gpu.ts";

/** Knows the GPUs of this machine, and what they do. */
export type GpuSource = {
  current(): MachineGpus;
  readings(): readonly GpuReading[];
  /** Reads them now. */
  look(): Promise<void>;
  /** Calls the listener when `current` has changed, until the returned function is called. */
  onChange(listener: () => void): () => void;
  close(): Promise<void>;
};

/** The source of a machine without any. */
export const NO_GPUS: GpuSource = {
  current: () => ({ driver: null, gpus: [], trouble: null }),
  readings: () => [],
  look: async () => {},
  onChange: () => () => {},
  close: async () => {},
};
