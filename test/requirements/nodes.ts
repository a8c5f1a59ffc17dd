import { section } from "./row.ts";

/** Several services of one installation. */
export const NODES = {
  ...section("docs/cluster.md: How it works", {
    "lease.over": "A node that has left renews its lease no more.",
    "nodes.sure":
      "A node that comes back after a time without its lease is ready only when it knows which apps are its own.",
    "nodes.one-owner": "An app is one node's at a time: of many that try to take it, one gets it.",
    "nodes.lookups":
      "Callers without a token cannot keep a node from its work: made-up apps are looked for many at a time.",
    "nodes.fence":
      "A node that has lost an app claims none of its runs, and changes nothing of it, whatever it believes.",
    "nodes.spread":
      "Apps are spread over the nodes by their processors; if a node comes or goes, only its share moves.",
    "nodes.unloadable":
      "An app that its node cannot load goes to one that can; if none can, callers are told what is missing.",
    "nodes.gpus":
      "An app belongs to a node whose GPUs can serve it, if there is one; callers wait while it moves there.",
    "nodes.gpus.none":
      "If no node has the GPUs that an app asks for, deploys warn and calls get 503 no_gpu_free at once, for all nodes.",
    "nodes.moved-change":
      "A change of an app that moves at that moment is made by the node that has it then.",
    "nodes.moved-run":
      "A call in progress on a node that has given its app away is found through every node.",
    "nodes.both-leave": "Nodes that leave at once give their apps to one that stays, not to each other.",
    "nodes.accept": "Runs accepted while their app moves are neither lost nor executed twice.",
    "nodes.left-builds":
      "A deploy whose node has died fails as soon as another has the app, also if it waited its turn.",
    "nodes.copied":
      "A service on a copy of a living node's data directory does not start, and says what to do.",
    "nodes.key-file":
      "MILLRACE_MASTER_KEY_FILE names the master key; a missing or open file is refused, and none is made.",
    "nodes.list":
      "The operator sees every node: address, machine, release, apps, runs, start, and whether it leaves.",
    "nodes.alone": "A service alone is the one node there is, and cannot be drained.",
    "nodes.drain": "The operator asks a node to leave, and takes that back; renewals do not.",
    "nodes.cli": "`millrace nodes` lists the nodes, and drains one by its name or id.",
    "nodes.dashboard": "The dashboard shows the nodes to the operator alone.",
    "nodes.doctor":
      "doctor checks the master key file, the node's own address, and that it reaches the others.",
    "packaging.cluster":
      "packaging/ has a compose file of three nodes, and load balancers that use the nodes that are ready.",
    "nodes.document.settings":
      "The settings in docs/cluster.md are those of a node that may have others beside it.",
  }),
};
