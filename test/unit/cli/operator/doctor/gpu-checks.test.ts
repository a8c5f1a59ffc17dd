import { expect } from "vitest";
import { checkGpus, lookAtGpus } from "../../../../../src/cli/operator/doctor/gpu-checks.ts";
import { LOST, SAMPLE_GPUS, sampleGpu, ToldGpus } from "../../../../support/gpus/sample-gpus.ts";
import { verifies } from "../../../../verifies.ts";

const NVIDIA = { hasNvidia: true, hasUvm: true, hasAmd: false };
const NONE = { driver: null, trouble: null, gpus: [] };

verifies("hardware.doctor", "doctor names the driver and each GPU, and what does not work", async () => {
  const told = new ToldGpus();
  const found = await lookAtGpus(async () => told.source);
  const [first, second, third, fourth] = SAMPLE_GPUS.map(({ uuid }) => uuid);
  expect(checkGpus(found, NVIDIA)).toEqual(
    [
      { status: "ok", message: "driver 580.65.06, 4 GPUs", remedy: null },
      {
        status: "ok",
        message: `GPU 0 (H100, ${first}) at 00000000:00:00.0: 52.0 GB of 85.5 GB used, 64 °C`,
        remedy: null,
      },
      { status: "ok", message: `GPU 1 (H100, ${second}) at 00000000:01:00.0: 85.5 GB`, remedy: null },
      {
        status: "fail",
        message: `GPU 2 (H100, ${third}) is out of service: ${LOST}`,
        remedy: expect.stringContaining("tries it again") as string,
      },
      {
        status: "ok",
        message: `GPU 3 (L40S, ${fourth}) at 00000000:03:00.0: 1.0 GB of 48.3 GB used`,
        remedy: null,
      },
    ].map((finding) => ({ check: "gpus", ...finding })),
  );
});

verifies("hardware.doctor", "doctor says what to do about a driver that does not work", async () => {
  const told = new ToldGpus();
  told.machine = { driver: "580.65.06", gpus: [sampleGpu(0)], trouble: null };
  const working = await lookAtGpus(async () => told.source);
  expect(checkGpus(working, { ...NVIDIA, hasUvm: false })).toMatchObject([
    { status: "ok", message: "driver 580.65.06, 1 GPU" },
    {
      status: "fail",
      message: "CUDA cannot start: there is no /dev/nvidia-uvm",
      remedy: expect.stringContaining("nvidia-modprobe -u -c 0") as string,
    },
    { status: "ok" },
  ]);
  const trouble = "libnvidia-ml.so.1 was not found";
  expect(checkGpus({ ...NONE, trouble }, NVIDIA)).toMatchObject([
    { status: "fail", message: trouble, remedy: expect.stringContaining("nvidia-smi") as string },
  ]);
  // A driver that answers is not to blame.
  expect(checkGpus({ ...NONE, driver: "580.65.06", trouble: "there is no GPU 7" }, NVIDIA)).toMatchObject([
    { status: "fail", remedy: expect.stringContaining("MILLRACE_GPUS") as string },
  ]);
  expect(checkGpus({ ...working, driver: null }, NVIDIA)[0]).toMatchObject({ status: "fail" });
});

verifies(
  "hardware.doctor",
  "doctor says so of machines without GPUs, with AMD's, and with fake ones",
  async () => {
    const none = { hasNvidia: false, hasUvm: false, hasAmd: false };
    const only = (...given: Parameters<typeof checkGpus>) =>
      checkGpus(...given).map(({ status, message }) => [status, message]);
    expect(only(NONE, none)).toEqual([["ok", "this machine has no NVIDIA GPU"]]);
    expect(only(NONE, NVIDIA)).toEqual([["ok", "the service uses no GPU of this machine"]]);
    expect(only({ ...NONE, trouble: "AMD GPUs are not supported" }, { ...none, hasAmd: true })).toEqual([
      ["warn", "AMD GPUs are not supported: no app is granted one"],
    ]);
    const told = new ToldGpus();
    told.machine = { driver: null, gpus: [sampleGpu(0, { name: "Fake H100" })], trouble: null };
    expect(only(await lookAtGpus(async () => told.source), none)[0]).toEqual([
      "warn",
      "1 GPU for tests, which do not exist",
    ]);
  },
);
