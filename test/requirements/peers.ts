import { section } from "./row.ts";

/** How the nodes of an installation talk to each other. */
export const PEERS = {
  ...section("docs/decisions/0034-nodes.md", {
    "peers.authority":
      "All nodes have one authority, whose key is sealed in the database; each start of a node gets a certificate.",
    "peers.strangers":
      "A client without a certificate of the installation's authority gets no answer from the nodes' listener.",
    "peers.identity":
      "A certificate identifies its node: no node can pose as another, and no caller as a node.",
    "peers.bytes": "A forwarded request and its answer are byte for byte what they are without the hop.",
    "peers.sockets":
      "WebSockets pass through a node, and end with a close frame if the node behind it is lost.",
    "peers.moved":
      "A node that does not have the app says so before it takes the body, and another gets the request.",
    "peers.here":
      "A request whose app turns out to be here is answered here: no node sends requests to itself.",
    "peers.lost":
      "A call whose node is lost is never repeated unless it is a GET or HEAD: 502 node_lost, or its answer is cut.",
    "peers.silent":
      "A node that falls silent while its lease is valid is pinged if requests are in progress there, then given up.",
    "peers.unreached": "A node that cannot be reached has begun nothing: the request may go to another.",
    "peers.aborts": "If a caller disconnects, the request ends at the node that it was forwarded to.",
    "peers.pace":
      "What passes through a node passes no faster than the other side reads, and its memory is freed once it is sent.",
    "peers.gateway":
      "Calls, streams, uploads, WebSockets and run requests of any app work at any node, as if it had the app.",
    "peers.management":
      "Requests of the management API about one app, deploys and log sockets work at any node.",
    "peers.draining": "A node that stops waits for what passes through it, as it does for its own calls.",
    "peers.both-ways":
      "A node starts only if it reaches the others, and they reach it at the address that it tells.",
    "peers.own": "What nodes say to each other is small: more than 1 MiB is refused.",
  }),
  ...section("docs/cluster.md: What happens when", {
    "peers.events-lost":
      "A stream of events that a node forwards ends with event: error when the node behind it is lost.",
  }),
};
