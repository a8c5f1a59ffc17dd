import type { GpuGrant } from "../../model/gpu.ts";

/**
 * What the processes of a replica are told of its GPUs. CUDA counts the GPUs that it can open: from 0 where the others are
 * hidden, else as the host does. It takes MIG instances by UUID only; programs such as vLLM take other GPUs by number only.
 */
export function gpuVariables(
  { gpus, memoryBytes }: GpuGrant,
  areOthersHidden: boolean,
): Readonly<Record<string, string>> {
  const inOrder = gpus.toSorted((one, other) => one.index - other.index);
  const uuids = inOrder.map(({ uuid }) => uuid);
  const numbers = inOrder.map(({ index }, position) => (areOthersHidden ? position : index));
  const whole = Math.min(...inOrder.map((gpu) => gpu.memoryBytes));
  return {
    NVIDIA_VISIBLE_DEVICES: uuids.join(","),
    CUDA_VISIBLE_DEVICES: (inOrder.some(({ isMig }) => isMig) ? uuids : numbers).join(","),
    CUDA_DEVICE_ORDER: "PCI_BUS_ID",
    MILLRACE_GPU_MEMORY: String(memoryBytes ?? whole),
  };
}
