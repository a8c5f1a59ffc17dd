import { section } from "./row.ts";

/** What several services of one installation show together. */
export const CLUSTER = {
  ...section("docs/cluster.md: What happens when", {
    "cluster.kills":
      "Nodes die one after the other: no accepted run is lost or stuck; only calls fail that the dead one held.",
    "cluster.restarts": "Nodes restart in an orderly way, one after the other: no call fails.",
    "cluster.cut-off":
      "A node cut off from Postgres or its peers, or frozen: no two owners write, and it comes back by itself.",
    "cluster.s3-away": "While the bucket is away nothing that was accepted is lost, and small calls go on.",
    "cluster.versions": "A version serves through every node as soon as its deploy or rollback says success.",
    "cluster.history": "The rules that a cluster's history is held to find planted faults.",
    "cluster.queue":
      "Nodes die, freeze and lose their database: every async run ends once, in its turn, within its app's limits.",
    "cluster.queue-history": "The plain queue that a cluster's queue is held against finds planted faults.",
    "cluster.through-other":
      "A node that does not own an app takes calls, streams, WebSockets, uploads, cancels and logs for it.",
    "cluster.dead-node":
      "Another node serves the apps of a dead one, and ends the runs that it had accepted.",
    "cluster.orderly-stop": "A node that stops in an orderly way hands its apps over, and no call fails.",
  }),
};
