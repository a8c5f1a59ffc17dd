import { Agent, request } from "node:http";
import { Agent as TlsAgent, request as tlsRequest } from "node:https";
import { hostOf } from "../../src/nodes/authority.ts";
import type { Peer } from "../../src/nodes/peers.ts";
import { announce, endWithParent } from "../child-side.ts";
import { barePass } from "../floor/bare-pass.ts";
import { benchIdentity } from "./bench-node.ts";

// The floor for a call that another node passes on: `node:http` in front of the owner, connections kept, and nothing
// else. `node bare-child.ts URL` leads to where callers reach it; `node bare-child.ts SECRET PEER` to where nodes do, by
// TLS with certificates on both sides. When it is up it prints one line: {"url"}.

const [first = "", peer] = process.argv.slice(2);
const server = peer === undefined ? plain(first) : await secure(first, JSON.parse(peer) as Peer);
server.listen(0, "127.0.0.1", () => announce(server));
endWithParent(() => {});

function plain(url: string) {
  const { hostname: host, port } = new URL(url);
  const agent = new Agent({ keepAlive: true });
  return barePass((options, onAnswer) => request({ host, port, agent, ...options }, onAnswer));
}

async function secure(secret: string, { id, url }: Peer) {
  const { certificate: cert, key, authority: ca } = await benchIdentity(secret);
  const { hostname: host, port } = new URL(url);
  const agent = new TlsAgent({
    keepAlive: true,
    cert,
    key,
    ca,
    servername: hostOf(id),
    minVersion: "TLSv1.3",
  });
  // What a node says of a request that it passes on.
  const hop = ["x-millrace-for", "api 127.0.0.1 1.1 plain"];
  return barePass(({ headers, ...rest }, onAnswer) =>
    tlsRequest({ host, port, agent, ...rest, headers: [...hop, ...headers] }, onAnswer),
  );
}
