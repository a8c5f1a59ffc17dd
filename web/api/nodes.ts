import { queryOptions } from "@tanstack/react-query";
import { NODES } from "../../src/shapes/installation.ts";
import { ask } from "./http.ts";

export type { NodeRecord } from "../../src/shapes/installation.ts";

/** The services of the installation, kept fresh while they are looked at. For the operator. */
export const nodesQuery = queryOptions({
  queryKey: ["nodes"],
  queryFn: ({ signal }) => ask(NODES, "/v2/nodes", { signal }),
  refetchInterval: 5_000,
});
