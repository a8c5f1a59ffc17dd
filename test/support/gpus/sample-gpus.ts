import { NO_GPUS, type GpuSource } from "../../../src/host/gpus/source.ts";
import type { Gpu, GpuReading, MachineGpus } from "../../../src/model/gpu.ts";

const GB = 1e9;

/** A working H100 of 80 GB. */
export function sampleGpu(index: number, said: Partial<Gpu> = {}): Gpu {
  return {
    uuid: `GPU-0000000${index}-1111-2222-3333-444444444444`,
    index,
    model: "H100",
    name: "NVIDIA H100 80GB HBM3",
    memoryBytes: 85_520_809_984,
    busId: `00000000:0${index}:00.0`,
    files: [`/dev/nvidia${index}`],
    isMig: false,
    fault: null,
    ...said,
  };
}

export const LOST = "it has fallen off the bus (XID 79): restart the machine, and have the GPU checked";

/** Four GPUs, of which one is lost. */
export const SAMPLE_GPUS: readonly Gpu[] = [
  sampleGpu(0),
  sampleGpu(1),
  sampleGpu(2, { fault: LOST }),
  sampleGpu(3, { model: "L40S", name: "NVIDIA L40S", memoryBytes: 48_305_799_168 }),
];

const [busy] = SAMPLE_GPUS;
const SAMPLE_READINGS: readonly GpuReading[] = [
  {
    uuid: busy!.uuid,
    usedBytes: 52 * GB,
    freeBytes: 28 * GB,
    utilization: 87,
    watts: 512.5,
    celsius: 64,
    processes: null,
  },
  {
    uuid: SAMPLE_GPUS[3]!.uuid,
    usedBytes: 1 * GB,
    freeBytes: 47 * GB,
    utilization: null,
    watts: null,
    celsius: null,
    processes: null,
  },
];

/** What a test says of a machine's GPUs; it may say something else later. */
export class ToldGpus {
  machine: MachineGpus = { driver: "580.65.06", gpus: SAMPLE_GPUS, trouble: null };
  readings: readonly GpuReading[] = SAMPLE_READINGS;

  readonly source: GpuSource = {
    ...NO_GPUS,
    current: () => this.machine,
    readings: () => this.readings,
  };

  /** Of the service that is told. */
  readonly options = { gpus: this.source };
}
