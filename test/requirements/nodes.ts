import { section } from "./row.ts";

/** Several services as one installation: what their operator sees and does. */
export const NODES = {
  ...section("issue: Many services, one installation", {
    "nodes.key-file":
      "MILLRACE_MASTER_KEY_FILE names the master key; a missing or open file is refused, and none is made.",
    "nodes.labels":
      "MILLRACE_NODE_NAME and MILLRACE_NODE_LABELS say what a node is called; both are bounded.",
    "nodes.details": "A node tells its name, labels, processors, memory, release and data directory.",
  }),
};
