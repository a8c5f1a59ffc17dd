import { type HardwareConfig, isGpu } from "../../model/app-config.ts";
import { type AppKeys, decimal, type Host, integer, line, oneOrMore, optional } from "../readers.ts";

/** One if the app asks for a GPU by name and says no number. */
function defaultGpuCount(_: Host, above: { readonly compute?: unknown }): number {
  const { compute } = above;
  const [first] = Array.isArray(compute) ? (compute as readonly string[]) : [];
  return first !== undefined && isGpu(first) ? 1 : 0;
}

/** The keys of `[hardware]`. */
export const HARDWARE_KEYS: AppKeys<HardwareConfig> = {
  cpu: {
    path: "hardware.cpu",
    payload: "cpu",
    reader: decimal(0.1, 512),
    default: 2,
    meaning:
      "CPU cores per replica: a limit if you set it, and else its share where processors are short. Scaling by cpu_utilization uses it too.",
  },
  memoryGb: {
    path: "hardware.memory",
    payload: "memory",
    reader: decimal(0.1, 16_384),
    default: 4,
    meaning:
      "Memory per replica, in GB: a limit if you set it. A replica that needs more is ended, and its runs fail with out_of_memory. Scaling by memory_utilization uses it too.",
  },
  compute: {
    path: "hardware.compute",
    payload: "compute",
    reader: oneOrMore('"CPU", the name of a GPU, or a list of up to 32 of these', line(64), 32),
    default: "CPU",
    meaning:
      "What the app runs on, in order of preference. Pods get a machine with one of these GPUs. As processes of a host, replicas see all its GPUs; a build warns if it has none.",
  },
  gpuCount: {
    path: "hardware.gpu_count",
    payload: "gpuCount",
    reader: integer(0, 64),
    defaultFor: defaultGpuCount,
    meaning:
      "GPUs per replica, which pods and actors request. Without effect on one host. Default: 1 if `compute` begins with a GPU, else 0.",
  },
  provider: {
    path: "hardware.provider",
    payload: "provider",
    reader: optional(line(64)),
    meaning: "Stored and shown, but without effect.",
  },
  region: {
    path: "hardware.region",
    payload: "region",
    reader: optional(line(64)),
    meaning: "Stored and shown, but without effect.",
  },
};
