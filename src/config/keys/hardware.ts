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
    "What the app runs on, in order of preference. Pods get a machine with one of these GPUs. As processes of a host, replicas see all its GPUs; a build warns if none of these is among them.",
  ),
  gpuCount: key("hardware.gpu_count", "gpuCount", integer(0, 64), defaultGpuCount).describe(
    "GPUs per replica, which pods and actors request. Without effect on one host. Default: 1 if `compute` begins with a GPU, else 0.",
  ),
  provider: key("hardware.provider", "provider", optional(line(64))).describe(
    "Stored and shown, but without effect.",
  ),
  region: key("hardware.region", "region", optional(line(64))).describe(
    "Stored and shown, but without effect.",
  ),
};
