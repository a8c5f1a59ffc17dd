import { type HardwareConfig, isGpu } from "../../model/app-config.ts";
import { type AppKeys, decimal, type Host, integer, line, oneOrMore, optional, key } from "../readers.ts";

/** One if the app asks for a GPU by name and says no number. */
function defaultGpuCount(_: Host, above: { readonly compute?: unknown }): number {
  const { compute } = above;
  const [first] = Array.isArray(compute) ? (compute as readonly string[]) : [];
  return first !== undefined && isGpu(first) ? 1 : 0;
}

const compute = oneOrMore('"CPU", the name of a GPU, or a list of up to 32 of these', line(64), 32);

/** The keys of `[hardware]`. */
export const HARDWARE_KEYS: AppKeys<HardwareConfig> = {
  cpu: key("hardware.cpu", "cpu", decimal(0.1, 512), 2).describe(
    "CPU cores per replica: a limit if you set it, and else its share where processors are short. Scaling by cpu_utilization uses it too.",
  ),
  memoryGb: key("hardware.memory", "memory", decimal(0.1, 16_384), 4).describe(
    "Memory per replica, in GB: a limit if you set it. A replica that needs more is ended, and its runs fail with out_of_memory. Scaling by memory_utilization uses it too.",
  ),
  compute: key("hardware.compute", "compute", compute, "CPU").describe(
    "What the app runs on, in order of preference. Each replica is granted GPUs of the first of these models that can serve it, and pods get a machine with one of them; ANY takes every model. On a host without a GPU the app runs on the CPU, and a build warns. With CPU in the list it does so without a warning, also where there are only other GPUs.",
  ),
  gpuCount: key("hardware.gpu_count", "gpuCount", integer(0, 64), defaultGpuCount).describe(
    "GPUs per replica, all of one model. A replica starts when that many are free. Default: 1 if `compute` begins with a GPU, else 0.",
  ),
  gpuMemoryGb: key("hardware.gpu_memory", "gpuMemory", optional(decimal(0.1, 16_384))).describe(
    "Memory that a replica needs of each of its GPUs, in GB: replicas share a GPU as long as all fit. Not set: whole GPUs. Pods and actors get whole GPUs either way.",
  ),
  provider: key("hardware.provider", "provider", optional(line(64))).describe(
    "Stored and shown, but without effect.",
  ),
  region: key("hardware.region", "region", optional(line(64))).describe(
    "Stored and shown, but without effect.",
  ),
};
