import { existsSync } from "node:fs";
import type { GpuSource } from "../../../host/gpus/source.ts";
import { mayHaveGpus } from "../../../host/gpus/driver-files.ts";
import { nodeGpus } from "../../../management/installation/hardware.ts";
import type { GpuRecord, NodeGpus } from "../../../shapes/hardware.ts";
import { bytes } from "../../output.ts";
import { fail, type Finding, ok, warn } from "./finding.ts";

/** Looks for GPUs once, where no service runs that knows of them. */
export async function lookAtGpus(open: () => Promise<GpuSource>): Promise<NodeGpus> {
  const source = await open();
  try {
    // A driver that starts its GPUs may take longer than a service waits for it.
    await source.look();
    return nodeGpus({ source, grants: () => [] });
  } finally {
    await source.close();
  }
}

/** The files of drivers that tell which GPUs a machine has. */
type DriverFiles = { readonly hasNvidia: boolean; readonly hasUvm: boolean; readonly hasAmd: boolean };

export function driverFiles(): DriverFiles {
  return {
    hasNvidia: mayHaveGpus(),
    hasUvm: existsSync("/dev/nvidia-uvm"),
    hasAmd: existsSync("/dev/kfd"),
  };
}

const DRIVER =
  "check that nvidia-smi works for the service's user. It needs libnvidia-ml.so.1 of the same version as the kernel's driver; in a container, set NVIDIA_DRIVER_CAPABILITIES=compute,utility";
const CHOICE =
  "compare MILLRACE_GPUS with the GPUs and MIG instances that nvidia-smi -L lists; see docs/gpus.md";
const UVM = "run nvidia-modprobe -u -c 0 as root, at every boot; see docs/gpus.md";
const USE_NVIDIA = "run apps that need a GPU on a machine with one of NVIDIA's";

/** A line for the driver, and one for each GPU: which the service uses, and which of them do not work. */
export function checkGpus({ driver, trouble, gpus }: NodeGpus, files: DriverFiles): Finding[] {
  if (gpus.length === 0) return [describeNone(driver, trouble, files)];
  const count = gpus.length === 1 ? "1 GPU" : `${gpus.length} GPUs`;
  const isFake = gpus.every(({ name }) => name.startsWith("Fake "));
  if (isFake) {
    const remedy = "unset MILLRACE_GPUS";
    return [warn("gpus", `${count} for tests, which do not exist`, remedy), ...gpus.map(describeGpu)];
  }
  const head =
    driver === null
      ? fail("gpus", `${count}, and the driver does not answer`, DRIVER)
      : ok("gpus", `driver ${driver}, ${count}`);
  const missing = files.hasUvm ? [] : [fail("gpus", "CUDA cannot start: there is no /dev/nvidia-uvm", UVM)];
  return [head, ...missing, ...gpus.map(describeGpu)];
}

function describeNone(driver: string | null, trouble: string | null, files: DriverFiles): Finding {
  if (files.hasNvidia) {
    if (trouble !== null) return fail("gpus", trouble, driver === null ? DRIVER : CHOICE);
    return ok("gpus", "the service uses no GPU of this machine");
  }
  if (files.hasAmd) return warn("gpus", "AMD GPUs are not supported: no app is granted one", USE_NVIDIA);
  if (trouble !== null) return warn("gpus", trouble, "install the driver, or unset MILLRACE_GPUS");
  return ok("gpus", "this machine has no NVIDIA GPU");
}

function describeGpu({ uuid, index, model, busId, memoryBytes, usedBytes, celsius, fault }: GpuRecord) {
  const called = `GPU ${index} (${model}, ${uuid})`;
  if (fault !== null) {
    const remedy = "no app is granted it until it works; the service tries it again from time to time";
    return fail("gpus", `${called} is out of service: ${fault}`, remedy);
  }
  const memory =
    usedBytes === null ? bytes(memoryBytes) : `${bytes(usedBytes)} of ${bytes(memoryBytes)} used`;
  return ok("gpus", `${called} at ${busId}: ${memory}${celsius === null ? "" : `, ${celsius} °C`}`);
}
