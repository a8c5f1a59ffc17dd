import { expect } from "vitest";
import { verifies } from "../verifies.ts";
import { type Answer, testService } from "../support/service.ts";
import { onlyUpTo, requireJudged } from "../support/walls/walled.ts";
import { firstGpu, gpuFiles, hardware, requireGpu } from "./gpu-machine.ts";

const VARIABLES = ["NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"] as const;

/** Needs no packages. */
const LOOK = `
import os, subprocess, sys

COUNT = """
import ctypes
found = ctypes.c_int()
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:  # The driver may be hidden, too.
    print(0)
    raise SystemExit
print(found.value if cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(found)) == 0 else 0)
"""

def count():
    return int(subprocess.run([sys.executable, "-c", COUNT], check=True, stdout=subprocess.PIPE).stdout)

def opened(files):
    for node in files:
        try:
            os.close(os.open(node, os.O_RDWR))
            yield node
        except OSError:
            pass

def run(files, variables):
    told = {name: os.environ.get(name) for name in variables}
    return {"opened": list(opened(files)), "count": count(), "variables": told}

def pretend(files, index):
    os.environ.update(NVIDIA_VISIBLE_DEVICES="all", CUDA_VISIBLE_DEVICES=index)
    return {"opened": list(opened(files)), "count": count()}
`;

const TORCH = `
import os
import torch

def run():
    cuda = torch.cuda
    names = [cuda.get_device_name(index) for index in range(cuda.device_count())]
    return [cuda.is_available(), names, os.environ.get("MILLRACE_GPU_MEMORY")]
`;

async function result(calling: Promise<Answer>): Promise<unknown> {
  const { status, json, text } = await calling;
  expect([status, text]).toEqual([200, expect.any(String)]);
  return json.result;
}

verifies("gpu.found", "the GPU that nvidia-smi lists is the one that apps can ask for", async (context) => {
  const python = requireGpu(context);
  const { name, flags } = firstGpu();
  const torch = { main: TORCH };
  const apps = { with: { ...torch, toml: hardware() }, without: torch };
  const service = await testService(apps, { isolation: "auto", python, ...flags });
  const listed = await fetch(`${service.service.baseUrl}/v2/hardware`, {
    headers: { authorization: `Bearer ${service.service.owner.token}` },
  });
  const rows = (await listed.json()) as { name: string; gpuCount: number; gpuMemoryGb?: number }[];
  const [row, ...others] = rows.filter(({ gpuCount }) => gpuCount > 0);
  expect(others).toEqual([]);
  expect(row?.gpuCount).toBe(1);
  // "NVIDIA H200" is an H200.
  expect(name).toContain(row?.name);

  const [isAvailable, names, memory] = (await result(service.call("with"))) as [boolean, string[], string];
  expect([isAvailable, names]).toEqual([true, [name]]);
  // As the name of the GPU has it, in GiB.
  expect(Math.round(Number(memory) / 2 ** 30)).toBe(row?.gpuMemoryGb);
  expect(await result(service.call("without"))).toEqual([false, [], null]);
});

for (const level of ["uid", "userns", "landlock"] as const)
  verifies(
    "gpu.granted",
    `on ${level} an app can open the GPU that it was granted, and without a grant none`,
    async (context) => {
      requireGpu(context);
      await requireJudged(level, context);
      const { uuid, index, flags } = firstGpu();
      const files = gpuFiles();
      const apps = { with: { main: LOOK, toml: hardware() }, without: { main: LOOK } };
      const service = await testService(apps, { ...(await onlyUpTo(level, "python3", true)), ...flags });
      const look = async (app: string) =>
        (await result(service.call(app, { files, variables: VARIABLES }))) as Record<string, unknown>;
      expect(await look("with")).toEqual({
        opened: [expect.stringMatching(/^\/dev\/nvidia\d+$/)],
        count: 1,
        variables: {
          NVIDIA_VISIBLE_DEVICES: uuid,
          CUDA_VISIBLE_DEVICES: "0",
          CUDA_DEVICE_ORDER: "PCI_BUS_ID",
        },
      });
      expect(await look("without")).toMatchObject({
        opened: [],
        count: 0,
        variables: { CUDA_VISIBLE_DEVICES: "" },
      });
      const pretend = { functionName: "pretend" };
      expect(await result(service.call("without", { files, index: String(index) }, pretend))).toEqual({
        opened: [],
        count: 0,
      });
    },
  );

const EARLY = `
import os
import torch

ONES = torch.ones(3, device="cuda")
IMPORTED_BY = os.getpid()

def run():
    return [float(ONES.sum()), os.getpid() == IMPORTED_BY]
`;
/** Two calls at once wait for each other, so each has a replica of its own. */
const FORKED = `
import os, time
import torch

IMPORT = os.urandom(8).hex()
replica = ""
weights = torch.ones(3)

def setup():
    global replica, weights
    replica = os.urandom(8).hex()
    weights = weights.to("cuda")

def run():
    folder = os.environ["PERSISTENT_STORAGE"]
    open(os.path.join(folder, "replica-" + replica), "w").close()
    while sum(name.startswith("replica-") for name in os.listdir(folder)) < 2:
        time.sleep(0.01)
    return {"sum": float(weights.sum()), "device": weights.device.type, "import": IMPORT, "replica": replica}
`;
const ASYNC = `
import asyncio
import torch

ready = None

async def setup():
    global ready
    await asyncio.sleep(0)
    ready = torch.ones(3, device="cuda")

async def run():
    await asyncio.sleep(0)
    return float((ready + torch.ones(3, device="cuda")).sum())
`;
const PART = hardware(4);

type Fork = { readonly import: string; readonly replica: string };

verifies(
  "gpu.anywhere",
  "CUDA starts at import, where nothing is forked, in setup() of forks, and in an async def",
  async (context) => {
    const python = requireGpu(context);
    const apps = {
      early: { main: EARLY, toml: PART },
      forked: { main: FORKED, toml: `${PART}[scaling]\nmin_replicas = 2\nmax_replicas = 2\n` },
      async: { main: ASYNC, toml: PART },
    };
    const service = await testService(apps, { isolation: "auto", python, ...firstGpu().flags });
    expect(await result(service.call("early"))).toEqual([3, true]);
    const forks = (await Promise.all([1, 2].map(() => result(service.call("forked"))))) as Fork[];
    for (const fork of forks) expect(fork).toMatchObject({ sum: 3, device: "cuda" });
    // One import, two replicas.
    expect([...new Set(forks.map((fork) => fork.import))]).toHaveLength(1);
    expect([...new Set(forks.map((fork) => fork.replica))]).toHaveLength(2);
    expect(await result(service.call("async"))).toBe(6);
  },
);
