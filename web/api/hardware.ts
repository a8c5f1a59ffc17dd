import { queryOptions } from "@tanstack/react-query";
import { MACHINES } from "../../src/shapes/hardware.ts";
import { ask } from "./http.ts";

export type { GpuRecord, MachineRecord } from "../../src/shapes/hardware.ts";

/** The machines of the installation with their GPUs, kept fresh while they are looked at. For the operator. */
export const machinesQuery = queryOptions({
  queryKey: ["machines"],
  queryFn: ({ signal }) => ask(MACHINES, "/v2/gpus", { signal }),
  refetchInterval: 3_000,
});
