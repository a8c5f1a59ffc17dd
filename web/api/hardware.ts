import { queryOptions } from "@tanstack/react-query";
import { MACHINES } from "../../src/shapes/hardware.ts";
import { HISTORY_REFRESH_MS } from "./gpu-history.ts";
import { ask } from "./http.ts";

export type { GpuHistoryRecord, GpuRecord, MachineRecord } from "../../src/shapes/hardware.ts";

/** The machines of the installation with their GPUs, kept fresh while they are looked at. For the operator. */
export const machinesQuery = queryOptions({
  queryKey: ["machines"],
  queryFn: ({ signal }) => ask(MACHINES, "/v2/gpus", { signal }),
  refetchInterval: 3_000,
});

/** The same with the last hour of each GPU, which takes more to tell. */
export const machineHistoryQuery = queryOptions({
  queryKey: ["machines", "history"],
  queryFn: ({ signal }) => ask(MACHINES, "/v2/gpus", { query: { history: "true" }, signal }),
  refetchInterval: HISTORY_REFRESH_MS,
});
