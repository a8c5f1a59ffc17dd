import type { Workload } from "../engine.ts";
import { askedLimits } from "./seat-limits.ts";
import type { FolderLimits } from "./seat-limits.ts";
import type { Sitting } from "./seat-messages.ts";
import type { GuestWalls } from "./seat-walls.ts";

/** What is to run in a seat. */
export type SeatStart = Pick<Sitting, "order" | "server"> & { readonly workload: Workload };

/**
 * The same as an agent is told it; `storage` is where places have a project's storage, `around` and `folders` what apps
 * get on machines that strangers use too.
 */
export function sittingOf(
  { workload, order, server }: SeatStart,
  storage: string,
  around?: GuestWalls,
  folders?: FolderLimits,
): Sitting {
  const { bundleBlob, environmentBlob } = workload.version;
  return {
    bundle: bundleBlob ?? "",
    environment: environmentBlob,
    // A place of strangers has one folder for all projects.
    storage: around ? `${storage}/${workload.projectId}` : storage,
    variables: { ...around?.variables, ...workload.variables },
    walls: around?.asked ?? null,
    limits: askedLimits(workload.limits, folders),
    order,
    server,
  };
}
