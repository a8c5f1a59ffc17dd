import { expect } from "vitest";
import { gpuOptions } from "../../../src/host/containers/start-container.ts";
import { gpuVariables } from "../../../src/engines/granted-engine.ts";
import { madeGpu } from "../../support/gpus/played-gpus.ts";
import { verifies } from "../../verifies.ts";

const [first, third] = [madeGpu(0), madeGpu(2, { memoryBytes: 79e9 })];

verifies(
  "gpu.variables",
  "GPUs are counted from 0 where the others are hidden, else as the host does",
  () => {
    const grant = { gpus: [third, first], memoryBytes: null };
    expect(gpuVariables(grant, true)).toEqual({
      NVIDIA_VISIBLE_DEVICES: "GPU-0,GPU-2",
      CUDA_VISIBLE_DEVICES: "0,1",
      CUDA_DEVICE_ORDER: "PCI_BUS_ID",
      MILLRACE_GPU_MEMORY: String(79e9),
    });
    expect(gpuVariables(grant, false)["CUDA_VISIBLE_DEVICES"]).toBe("0,2");
    expect(gpuVariables({ ...grant, memoryBytes: 20e9 }, true)["MILLRACE_GPU_MEMORY"]).toBe(String(20e9));
  },
);

verifies("gpu.variables", "CUDA takes MIG instances by UUID alone", () => {
  const instance = { ...third, uuid: "MIG-1", isMig: true };
  expect(gpuVariables({ gpus: [instance], memoryBytes: null }, true)["CUDA_VISIBLE_DEVICES"]).toBe("MIG-1");
});

verifies("gpu.containers", "a container is given its GPUs by UUID, in the words of its tool", () => {
  expect(gpuOptions("podman", ["GPU-0", "GPU-2"])).toEqual([
    "--device",
    "nvidia.com/gpu=GPU-0",
    "--device",
    "nvidia.com/gpu=GPU-2",
  ]);
  expect(gpuOptions("docker", ["GPU-0", "GPU-2"])).toEqual(["--gpus", '"device=GPU-0,GPU-2"']);
  expect(gpuOptions("docker", [])).toEqual([]);
});
