import { z } from "zod";
import { LIMITS, describeEnforced } from "../../host/limits/limits.ts";
import { readEscapeReport } from "../../host/walls/escape-report.ts";
import { networkReport } from "../../host/walls/network.ts";
import { AppError } from "../../model/errors.ts";
import { NOTIFICATIONS } from "../../shapes/apps.ts";
import { ISOLATION, NODE, NODE_STATE, NODES } from "../../shapes/installation.ts";
import type { Isolation, IsolationRule, NodeRecord } from "../../shapes/installation.ts";
import { timestamp } from "../../shapes/common.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts, OwnNode } from "../parts.ts";

const operation = tagged("Installation");

/** The nodes, and how apps are isolated. */
export function installationOperations(parts: ManagementParts): Operation[] {
  return [
    operation("GET", "/v2/notifications", {
      id: "listNotifications",
      summary: "List notices for clients; always empty",
      access: null,
      response: NOTIFICATIONS,
      handle: () => [],
    }),
    operation("GET", "/v2/nodes", {
      id: "listNodes",
      summary: "List the nodes: the services that make up the installation",
      access: "operator",
      response: NODES,
      handle: () => listNodes(parts),
    }),
    operation("PATCH", "/v2/nodes/{node_id}", {
      id: "changeNode",
      summary: "Ask a node to hand its apps over and take no more (leaving), or to take apps again (live)",
      access: "operator",
      body: z.object({ state: NODE_STATE }),
      response: NODE,
      errors: ["not_found"],
      handle: async ({ params: { node_id: id }, body: { state }, record }) => {
        const { store, projectId } = parts;
        const nodes = await listNodes(parts);
        const node = nodes.find((other) => other.id === id);
        if (!node) throw new AppError("not_found", { message: "The installation has no such node." });
        const isLeaving = state === "leaving";
        if (isLeaving && !nodes.some((other) => other.id !== id && other.state === "live"))
          throw new AppError("bad_request", { message: "No other node could take its apps." });
        if (!(await store.nodes.setLeaving({ id, isLeaving })) && isLeaving) throw new AppError("not_found");
        const action = isLeaving ? "node.drain" : "node.undrain";
        await record(action, id, { projectId, before: { state: node.state }, after: { state } });
        return { ...node, state };
      },
    }),
    operation("GET", "/v2/isolation", {
      id: "getIsolation",
      summary: "Show how apps are isolated, and the last report of doctor --escape",
      access: "operator",
      response: ISOLATION,
      handle: (): Isolation => ({
        level: parts.seatWalls()?.level ?? parts.isolated.level ?? "none",
        rules: rulesOf(parts),
        lastEscape: readEscapeReport(parts.dataDir),
      }),
    }),
  ];
}

/** The nodes in the database, and this service, which is the only node if it is alone; sorted by name. */
async function listNodes({ store, ownNode }: ManagementParts): Promise<NodeRecord[]> {
  const [{ living }, apps] = await Promise.all([store.nodes.list(), store.appOwners.counts()]);
  const own = ownNode();
  const others = living
    .filter(({ id }) => id !== own.id)
    .map((node) => shown({ ...node, apps: apps.get(node.id) ?? 0, runs: node.details.runs }, node.isLeaving));
  const isLeaving = living.some((node) => node.id === own.id && node.isLeaving);
  return [{ ...shown(own, isLeaving), isSelf: true }, ...others].toSorted(
    (a, b) => a.name.localeCompare(b.name) || a.id.localeCompare(b.id),
  );
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

function rulesOf({ enforcement, network: own, seatWalls }: ManagementParts): IsolationRule[] {
  const remote = seatWalls();
  const network = remote ? networkReport({ hasWalls: true, gap: remote.gap }) : own;
  const limits = LIMITS.map((name) => {
    const how = enforcement[name];
    return { name, isEnforced: "by" in how, detail: describeEnforced(how) };
  });
  const isEnforced = network.true === "enforced";
  const detail = isEnforced
    ? "the management API, metadata and other apps' servers are out of reach"
    : network.true;
  return [...limits, { name: "network", isEnforced, detail }];
}
