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

verifies("gpus.deploy-warning", "a build says why an app that asks for a GPU runs on the CPU", () => {
  const warnings = (asked: Partial<typeof hardware>, gpus = fake.current()) =>
    hardwareWarnings({ ...hardware, ...asked }, gpus);
  expect(warnings({})).toEqual([]);
  // Whether one of these will ever serve it is said by its deploy.
  expect(warnings({ compute: ["H200"], gpuCount: 1 })).toEqual([]);
  expect(warnings({ gpuCount: 2 })).toEqual([
    'gpu_count = 2, but compute names no GPU: the app runs on the CPU (compute = "ANY" takes every model)',
  ]);
  const none = NO_GPUS.current();
  expect(warnings({ compute: ["H100"], gpuCount: 1 }, none)).toEqual([
    "compute = H100, but this host has no GPU: the app runs on its CPU",
  ]);
  // What it names as well.
  expect(warnings({ compute: ["H100", "CPU"], gpuCount: 1 }, none)).toEqual([]);
  expect(warnings({ gpuCount: 1 }, without("AMD GPUs are not supported").current())).toEqual([
    "gpu_count = 1, but no GPU of this host can be used (AMD GPUs are not supported): the app runs on its CPU",
  ]);
  expect(hardwareWarnings({ ...hardware, compute: ["H200"], gpuCount: 1 }, undefined)).toEqual([]);
  // With GPUs on other nodes it does not run on the CPU.
  const others = [[], [{ model: "T4", memoryBytes: 16e9 }]];
  expect(hardwareWarnings({ ...hardware, compute: ["H100"], gpuCount: 1 }, none, others)).toEqual([]);
});
