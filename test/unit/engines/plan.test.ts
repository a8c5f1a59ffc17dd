import { expect } from "vitest";
import { packPlan } from "../../../src/engines/local/plan.ts";
import { NO_NETWORK } from "../../../src/host/walls/network.ts";
import { verifies } from "../../verifies.ts";

const HOST = { level: "userns", dataDir: "/data", user: null, reads: ["/opt/cuda"] } as const;
const REACH = {
  folders: { bundle: "/data/bundles/b", environment: "/data/environments/e", storage: "/data/storage/p" },
  scratch: "/data/scratch/s-1",
  python: { interpreter: "/opt/python/bin/python3.12", names: "/data/pythons/n" },
  memoryBytes: 200_000_000,
  reads: ["/srv/wheels"],
  writes: ["/data/work/w"],
  network: NO_NETWORK,
  unixSockets: false,
};
const PLAN = {
  program: "/data/environments/e/bin/python",
  args: ["-c", "pass"],
  cwd: "/data/bundles/b",
  env: { LD_PRELOAD: "/data/storage/p/evil.so", PYTHONPATH: "/data/storage/p" },
  order: "{}",
  input: null,
  home: "/run/home.sock",
  walls: { host: HOST, reach: REACH },
  watched: {
    memoryBytes: 1_000,
    folders: [{ name: "scratch", maxBytes: 5, path: "/data/scratch/s-1" }],
    checksStorage: false,
  },
  server: null,
} as const;

verifies(
  "walls.no-code-outside",
  "what the app brings reaches its agent as fields of a plan, and becomes nothing else",
  () => {
    const plan = packPlan(PLAN).split("\0");
    for (const field of [
      "level=userns",
      "network=false",
      "data_dir=/data",
      "order={}",
      "memory_bytes=200000000",
      "argument=pass",
      "read=/opt/cuda",
      "read=/srv/wheels",
      "read=/data/pythons/n",
      "interpreter=/opt/python/bin/python3.12",
      "write=/data/work/w",
      "watched_memory=1000",
      "watched=scratch 5 /data/scratch/s-1",
      "variable=LD_PRELOAD=/data/storage/p/evil.so",
    ])
      expect(plan).toContain(field);
    // Without a grant it can open no GPU.
    expect(plan).toContain("gpus=assigned");
    expect(plan.filter((field) => /^(granted_)?gpu=/.test(field))).toEqual([]);
    // One that was cut off lacks it.
    expect(plan.slice(-2)).toEqual(["end=", ""]);
    // An app chooses its secrets: none of them may become a field of the plan.
    expect(() => packPlan({ ...PLAN, env: { SECRET: "x\0rung=process" } })).toThrow("zero byte");
    const large = { ...PLAN, env: { SECRET: "x".repeat(128 * 1024) } };
    expect(() => packPlan(large)).toThrow(expect.objectContaining({ code: "E2BIG" }));
  },
);

verifies("gpu.enforced", "only device files reach an agent as GPUs of its seat", () => {
  const gpus = { all: ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap21"], granted: ["/dev/nvidia0"] };
  const plan = packPlan({ ...PLAN, gpus }).split("\0");
  expect(plan.filter((field) => /^(granted_)?gpus?=/.test(field))).toEqual([
    "gpus=assigned",
    "gpu=/dev/nvidia0",
    "gpu=/dev/nvidia-caps/nvidia-cap21",
    "granted_gpu=/dev/nvidia0",
  ]);
  for (const file of ["/etc/shadow", "/dev/../etc/shadow", "/dev/", "/dev//mem", "dev/nvidia0", "/dev/a\n"])
    expect(() => packPlan({ ...PLAN, gpus: { all: [file], granted: [] } })).toThrow("no device file");
  // Without walls nothing keeps it from any.
  expect(packPlan({ ...PLAN, walls: null, gpus })).not.toContain("gpu=");
});
