import { section } from "./row.ts";

/** Several services as one installation: what their operator sees and does. */
export const NODES = {
  ...section("issue: Many services, one installation", {
    "nodes.key-file":
      "MILLRACE_MASTER_KEY_FILE names the master key; a missing or open file is refused, and none is made.",
    "nodes.labels":
      "MILLRACE_NODE_NAME and MILLRACE_NODE_LABELS say what a node is called; both are bounded.",
    "nodes.list":
      "The operator sees every node: address, apps, runs, start, release, labels, and whether it leaves.",
    "nodes.alone": "A service alone is the one node there is, and cannot be drained.",
    "nodes.drain": "The operator asks a node to leave, and takes that back; renewals do not.",
    "nodes.cli": "`millrace nodes` lists the nodes, and drains one by its name or id.",
    "nodes.dashboard": "The dashboard shows the nodes to the operator, and to nobody else.",
    "nodes.details": "A node tells its name, labels, processors, memory, release and data directory.",
  }),
};
