import { z } from "zod";
import type { Audit } from "../identity/audit.ts";
import { AppError } from "../model/errors.ts";
import type { NodeDetails, ServiceNode } from "../model/node.ts";
import { NODE, NODES, NODE_STATE } from "../shapes/nodes.ts";
import type { NodeRecord } from "../shapes/nodes.ts";
import { timestamp } from "../shapes/timestamp.ts";
import type { Store } from "../store/store.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";

/** This service as a node; alone it has no address. */
type OwnNode = Pick<ServiceNode, "id"> & {
  readonly url: string | null;
  readonly details: Omit<NodeDetails, "runs">;
  /** What it has and does right now. */
  readonly apps: number;
  readonly runs: number;
};

export type NodeParts = {
  readonly store: Store;
  readonly ownNode: () => OwnNode;
  readonly audit: Pick<Audit, "record">;
  /** The default project: in its audit log the operator's deeds are written down. */
  readonly projectId: string;
};

const TAG = "Installation";
const NODE_PATH = z.object({ node_id: z.string().min(1).max(100) });

/** The services of the installation, for the one who runs it. */
export function nodeOperations(parts: NodeParts): AnyOperation[] {
  return [
    operation({
      method: "GET",
      path: "/v2/nodes",
      id: "listNodes",
      tag: TAG,
      summary: "List the nodes: the services that make up the installation",
      access: "operator",
      response: NODES,
      handle: () => listNodes(parts),
    }),
    operation({
      method: "PATCH",
      path: "/v2/nodes/{node_id}",
      id: "changeNode",
      tag: TAG,
      summary: "Ask a node to hand its apps over and take no more (leaving), or to take apps again (live)",
      access: "operator",
      params: NODE_PATH,
      body: z.object({ state: NODE_STATE }),
      response: NODE,
      errors: ["not_found"],
      handle: async ({ params: { node_id: id }, body: { state }, principal, ip, requestId }) => {
        const { store, audit, projectId } = parts;
        const nodes = await listNodes(parts);
        const node = nodes.find((other) => other.id === id);
        if (!node) throw new AppError("not_found", { message: "The installation has no such node." });
        const isLeaving = state === "leaving";
        if (isLeaving && !nodes.some((other) => other.id !== id && other.state === "live"))
          throw new AppError("bad_request", { message: "No other node could take its apps." });
        if (!(await store.nodes.setLeaving({ id, isLeaving })) && isLeaving) throw new AppError("not_found");
        const change = { before: { state: node.state }, after: { state } };
        const action = isLeaving ? "node.drain" : "node.undrain";
        await audit.record({ projectId, principal, ip, requestId, action, target: id, ...change });
        return { ...node, state };
      },
    }),
  ];
}

/** Those that the database knows, by name; a service alone is the only one. */
async function listNodes({ store, ownNode }: NodeParts): Promise<NodeRecord[]> {
  const [{ living }, apps] = await Promise.all([store.nodes.list(), store.appOwners.counts()]);
  const own = ownNode();
  const others = living
    .filter(({ id }) => id !== own.id)
    .map((node) => shown({ ...node, apps: apps.get(node.id) ?? 0, runs: node.details.runs }, node.isLeaving));
  const isLeaving = living.some((node) => node.id === own.id && node.isLeaving);
  return [{ ...shown(own, isLeaving), isSelf: true }, ...others].toSorted(byName);
}

function shown({ id, url, details, apps, runs }: OwnNode, isLeaving: boolean): NodeRecord {
  const { name, startedAt, release, capacity } = details;
  return {
    id,
    name,
    url,
    state: isLeaving ? "leaving" : "live",
    isSelf: false,
    apps,
    runs,
    startedAt: timestamp(startedAt),
    release,
    labels: {},
    ...capacity,
  };
}

function byName(a: NodeRecord, b: NodeRecord): number {
  return a.name.localeCompare(b.name) || a.id.localeCompare(b.id);
}
