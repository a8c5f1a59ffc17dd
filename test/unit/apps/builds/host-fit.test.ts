import { expect } from "vitest";
import { hardwareWarnings } from "../../../../src/apps/builds/host-fit.ts";
import { FakeGpus } from "../../../../src/host/gpus/fake.ts";
import { NO_GPUS, without } from "../../../../src/host/gpus/source.ts";
import { verifies } from "../../../verifies.ts";

const hardware = { cpu: 0.1, memoryGb: 0.1, compute: ["CPU"], gpuCount: 0, provider: null, region: null };
const fake = new FakeGpus([
  { count: 2, model: "H100", memoryGb: 80 },
  { count: 1, model: "T4", memoryGb: 16 },
]);
const HAS = "this host has 2 × H100 (80 GB); T4 (16 GB)";

verifies(
  "gpus.deploy-warning",
  "a build warns of GPUs that this host does not have, and says what it has",
  () => {
    const warnings = (asked: Partial<typeof hardware>, gpus = fake.current()) =>
      hardwareWarnings({ ...hardware, ...asked }, gpus);
    expect(warnings({})).toEqual([]);
    expect(warnings({ compute: ["HOPPER_H100"], gpuCount: 2 })).toEqual([]);
    expect(warnings({ compute: ["H200", "T4"], gpuCount: 1 })).toEqual([]);
    expect(warnings({ gpuCount: 2 })).toEqual([
      'gpu_count = 2, but compute names no GPU: the app runs on the CPU (compute = "ANY" takes every model)',
    ]);
    expect(warnings({ compute: ["H200", "CPU"], gpuCount: 1 })).toEqual([`compute = H200, but ${HAS}`]);
    expect(warnings({ compute: ["T4"], gpuCount: 2 })).toEqual([`compute = T4, gpu_count = 2, but ${HAS}`]);
    const none = NO_GPUS.current();
    expect(warnings({ compute: ["H100"], gpuCount: 1 }, none)).toEqual([
      "compute = H100, but this host has no GPU: the app runs on its CPU",
    ]);
    expect(warnings({ gpuCount: 1 }, without("AMD GPUs are not supported").current())).toEqual([
      "gpu_count = 1, but no GPU of this host can be used (AMD GPUs are not supported): the app runs on its CPU",
    ]);
    expect(hardwareWarnings({ ...hardware, compute: ["H200"], gpuCount: 1 }, undefined)).toEqual([]);
    const beside = (model: string) =>
      hardwareWarnings({ ...hardware, compute: ["H100"], gpuCount: 1 }, none, [
        [{ model, memoryBytes: 80e9 }],
      ]);
    // An app that another node can serve moves there. With GPUs on other nodes none runs on the CPU.
    expect(beside("H100")).toEqual([]);
    expect(beside("T4")).toEqual(["compute = H100, but this host has no GPU"]);
  },
);
