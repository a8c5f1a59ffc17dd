import { mkdirSync } from "node:fs";
import path from "node:path";
import type { Flavour } from "./hierarchy.ts";
import { MAX_PROCESSES } from "./limits.ts";
import type { Controller, OwnCgroups } from "./own-cgroups.ts";

const PERIOD_US = 100_000;
/** What the kernel gives a group by itself, for the two cores that an app has by default. */
const SHARES_A_CORE = 512;
const LEAST_SHARES = 2;

/** One hierarchy for each controller. */
export const V1: Flavour = {
  name: "cgroup v1",
  values: ({ memoryBytes, cpus, cpuShare }) => [
    ...(memoryBytes === null
      ? []
      : ([
          ["memory", "memory.limit_in_bytes", memoryBytes],
          // Memory and swap together: without it a group that is full would go on in swap.
          ["memory", "memory.memsw.limit_in_bytes", memoryBytes],
        ] as const)),
    ...(cpus === null
      ? []
      : ([
          ["cpu", "cpu.cfs_period_us", PERIOD_US],
          ["cpu", "cpu.cfs_quota_us", Math.round(cpus * PERIOD_US)],
        ] as const)),
    ["cpu", "cpu.shares", Math.max(LEAST_SHARES, Math.round(cpuShare * SHARES_A_CORE))],
    ["pids", "pids.max", MAX_PROCESSES],
  ],
  optional: new Set(["memory.memsw.limit_in_bytes"]),
  oomFile: "memory.oom_control",
};

/** Makes a folder of that name below the group that this process is in, for one controller. Throws if it may not. */
export function openV1({ v1 }: OwnCgroups, controller: Controller, name: string): string {
  const own = v1.get(controller);
  if (own === undefined) throw new Error(`this host shows no control groups for ${controller}`);
  const root = path.join(own, name);
  mkdirSync(root, { recursive: true });
  return root;
}
