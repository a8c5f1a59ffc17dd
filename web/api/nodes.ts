import { queryOptions } from "@tanstack/react-query";
import { NODE, NODES } from "../../src/shapes/installation.ts";
import type { NodeRecord } from "../../src/shapes/installation.ts";
import { ask } from "./http.ts";

export type { NodeRecord } from "../../src/shapes/installation.ts";

/** The services of the installation, kept fresh while they are looked at. For the operator. */
export const nodesQuery = queryOptions({
  queryKey: ["nodes"],
  queryFn: ({ signal }) => ask(NODES, "/v2/nodes", { signal }),
  refetchInterval: 5_000,
});

/** Asks a node to hand its apps over and take no more, or to take apps again. */
export async function changeNode(id: string, state: NodeRecord["state"]): Promise<NodeRecord> {
  return await ask(NODE, `/v2/nodes/${encodeURIComponent(id)}`, { method: "PATCH", body: { state } });
}
