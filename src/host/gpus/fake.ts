import type { FakeGpuKind } from "../../config/gpu-choice.ts";
import type { Gpu, GpuReading, MachineGpus } from "../../model/gpu.ts";
import { type GpuSource, NAMED_GB } from "./source.ts";

/** GPUs that exist only for tests: no device files, no process, and nothing changes unless a test says so. */
export class FakeGpus implements GpuSource {
  #gpus: readonly Gpu[];
  #readings: readonly GpuReading[];
  readonly #listeners = new Set<() => void>();

  constructor(kinds: readonly FakeGpuKind[]) {
    const models = kinds.flatMap(({ count, ...kind }) => Array.from({ length: count }, () => kind));
    this.#gpus = models.map(({ model, memoryGb }, index) => ({
      uuid: `GPU-fa4e0000-0000-4000-8000-${String(index).padStart(12, "0")}`,
      index,
      model,
      name: `Fake ${model}`,
      memoryBytes: memoryGb * NAMED_GB,
      busId: `00000000:${(index + 1).toString(16).toUpperCase().padStart(2, "0")}:00.0`,
      files: [],
      isMig: false,
      fault: null,
    }));
    this.#readings = this.#gpus.map(({ uuid, memoryBytes }) => ({
      uuid,
      usedBytes: 0,
      freeBytes: memoryBytes,
      utilization: 0,
      watts: null,
      celsius: null,
      processes: [],
    }));
  }

  current(): MachineGpus {
    return { driver: null, gpus: this.#gpus, trouble: null };
  }

  readings(): readonly GpuReading[] {
    return this.#readings;
  }

  look(): Promise<boolean> {
    return Promise.resolve(true);
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  close(): Promise<void> {
    this.#listeners.clear();
    return Promise.resolve();
  }

  /** Takes a GPU out of service for that reason, or puts it back for null. */
  fail(index: number, fault: string | null): void {
    this.#gpus = this.#gpus.map((gpu) => (gpu.index === index ? { ...gpu, fault } : gpu));
    for (const listener of this.#listeners) listener();
  }

  /** What the next reading of a GPU says. */
  show(index: number, reading: Partial<Omit<GpuReading, "uuid">>): void {
    this.#readings = this.#readings.map((each, place) => (place === index ? { ...each, ...reading } : each));
  }
}
