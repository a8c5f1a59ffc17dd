import type { Workload } from "../engine.ts";
import type { Sitting } from "./seat-messages.ts";

/** What is to run in a seat. */
export type SeatStart = Pick<Sitting, "order" | "server"> & { readonly workload: Workload };

/** The same as an agent is told it; `storage` is where places have a project's storage. */
export function sittingOf({ workload, order, server }: SeatStart, storage: string): Sitting {
  const { version, variables } = workload;
  const { bundleBlob, environmentBlob } = version;
  return { bundle: bundleBlob ?? "", environment: environmentBlob, storage, variables, order, server };
}
