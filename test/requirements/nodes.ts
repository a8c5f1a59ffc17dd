import { section } from "./row.ts";

/** Several services of one installation. */
export const NODES = {
  ...section("issue: Many services, one installation", {
    "lease.clock-set":
      "When somebody sets the database's clock, no node takes another for dead before it could renew its lease.",
    "lease.over": "A node that has left gives no more signs of life.",
    "nodes.one-owner": "An app is one node's at a time: of many that try to take it, one gets it.",
    "nodes.fence":
      "A node that has lost an app claims none of its runs, and changes nothing of it, whatever it believes.",
    "nodes.spread":
      "Apps spread over the nodes by their capacity, and of a node that comes or goes only its share moves.",
  }),
};
