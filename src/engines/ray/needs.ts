import type { Settings } from "../../config/setting-keys.ts";
import type { Workload } from "../engine.ts";
import type { Needs } from "./supervisor-messages.ts";

/** Of the share of an app that names no number of cores. */
const UNNAMED_SHARE = 0.25;

/** What the actor of a workload reserves, for all replicas that fit into it: Ray places by that, and holds nobody to it. */
export function needsOf(
  { limits, cards }: Pick<Workload, "limits" | "cards">,
  { replicasPerSeat, rayResources }: Pick<Settings, "replicasPerSeat" | "rayResources">,
): Needs {
  const { cpus, cpuShare, memoryBytes } = limits;
  const each: Needs = {
    CPU: cpus ?? cpuShare * UNNAMED_SHARE,
    ...(memoryBytes !== null && { memory: memoryBytes }),
    ...(cards && { GPU: cards.count }),
    ...rayResources,
  };
  return Object.fromEntries(Object.entries(each).map(([name, amount]) => [name, amount * replicasPerSeat]));
}
