import path from "node:path";
import { mkdirSync, readFileSync } from "node:fs";
import type { Controller, Flavour, OwnCgroups, GroupValue } from "./hierarchy.ts";
import { MAX_PROCESSES } from "./limits.ts";
import { CONTROLLERS, processesIn, setValue } from "./hierarchy.ts";

const PERIOD_US = 100_000;
/** The kernel's default, for the two cores that an app has by default. */
const SHARES_A_CORE = 512;
const LEAST_SHARES = 2;

/** Without the limits that are null. */
function given(values: readonly (readonly [Controller, string, string | number | null])[]): GroupValue[] {
  return values.flatMap(([controller, file, value]) => (value === null ? [] : [[controller, file, value]]));
}

/** One hierarchy for each controller. */
export const V1: Flavour = {
  name: "cgroup v1",
  values: ({ memoryBytes, cpus, cpuShare }) =>
    given([
      ["memory", "memory.limit_in_bytes", memoryBytes],
      // Memory and swap together: otherwise a full group would continue in swap.
      ["memory", "memory.memsw.limit_in_bytes", memoryBytes],
      ["cpu", "cpu.cfs_period_us", cpus === null ? null : PERIOD_US],
      ["cpu", "cpu.cfs_quota_us", cpus === null ? null : Math.round(cpus * PERIOD_US)],
      ["cpu", "cpu.shares", Math.max(LEAST_SHARES, Math.round(cpuShare * SHARES_A_CORE))],
      ["pids", "pids.max", MAX_PROCESSES],
    ]),
  optional: new Set(["memory.memsw.limit_in_bytes"]),
  oomFile: "memory.oom_control",
};

/** Makes a folder below this process's group, for one controller. Throws if it may not. */
export function openV1({ v1 }: OwnCgroups, controller: Controller, name: string): string {
  const own = v1.get(controller);
  if (own === undefined) throw new Error(`this host shows no control groups for ${controller}`);
  const root = path.join(own, name);
  mkdirSync(root, { recursive: true });
  return root;
}

/** The kernel's default, for the two cores that an app has by default. */
const WEIGHT_A_CORE = 50;
const MAX_WEIGHT = 10_000;
/** The group for the service itself: a group with controlled children may hold no process. */
const SERVICE_LEAF = "millrace-service";

/** One hierarchy for all controllers. */
export const V2: Flavour = {
  name: "cgroup v2",
  values: ({ memoryBytes, cpus, cpuShare }) =>
    given([
      ["memory", "memory.max", memoryBytes],
      // Otherwise a full group would continue in swap.
      ["memory", "memory.swap.max", memoryBytes === null ? null : 0],
      // Ends all of a replica: a part of one is useless.
      ["memory", "memory.oom.group", memoryBytes === null ? null : 1],
      ["cpu", "cpu.max", cpus === null ? null : `${Math.round(cpus * PERIOD_US)} ${PERIOD_US}`],
      ["cpu", "cpu.weight", Math.min(MAX_WEIGHT, Math.max(1, Math.round(cpuShare * WEIGHT_A_CORE)))],
      ["pids", "pids.max", MAX_PROCESSES],
    ]),
  optional: new Set(["memory.swap.max", "memory.oom.group"]),
  oomFile: "memory.events",
};

/** Takes over this process's group if it was delegated: a leaf for the service, a folder for its apps. Throws if it may not. */
export function openV2(own: string, name: string, isOurs: (pid: number) => boolean): string {
  // A restarted service starts in the leaf of the previous one.
  const base = path.basename(own) === SERVICE_LEAF ? path.dirname(own) : own;
  const offered = readFileSync(path.join(base, "cgroup.controllers"), "latin1").trim().split(" ");
  const missing = CONTROLLERS.filter((controller) => !offered.includes(controller));
  if (missing.length > 0) throw new Error(`its control group has no controllers ${missing.join(", ")}`);
  const inside = processesIn(base);
  if (!inside.every(isOurs)) throw new Error("its control group holds processes of others too");
  const leaf = path.join(base, SERVICE_LEAF);
  mkdirSync(leaf, { recursive: true });
  for (const pid of inside) setValue(leaf, "cgroup.procs", pid);
  const root = path.join(base, name);
  mkdirSync(root, { recursive: true });
  const all = CONTROLLERS.map((controller) => `+${controller}`).join(" ");
  for (const folder of [base, root]) setValue(folder, "cgroup.subtree_control", all);
  return root;
}
