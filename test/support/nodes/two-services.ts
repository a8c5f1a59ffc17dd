import { systemClock } from "../../../src/kit/clock.ts";
import type { Elsewhere, Whereabouts } from "../../../src/nodes/elsewhere.ts";
import type { Passed } from "../../../src/nodes/passage.ts";
import type { Peer } from "../../../src/nodes/peer.ts";
import type { PeerRoutes } from "../../../src/nodes/peer-listener.ts";
import { testAuthority, testNode } from "./hop.ts";
import type { TestNode } from "./hop.ts";
import { testService } from "../service.ts";
import type { TestApp, TestService } from "../service.ts";

/** What a service of a test believes about where apps are; the test says so. */
class Beliefs implements Elsewhere {
  readonly self: Peer;
  find: Elsewhere["find"] = async () => null;
  ofRun: Elsewhere["ofRun"] = async () => null;
  /** What is to be found out after a node did not have the app; null for nothing. */
  later: () => Promise<Whereabouts | null> = async () => null;
  readonly retries: Passed[] = [];

  constructor(self: Peer) {
    this.self = self;
  }

  async retry(_: unknown, __: Peer, why: Passed): Promise<Whereabouts | null> {
    this.retries.push(why);
    return await this.later();
  }
}

/** A service that has other nodes beside it. */
type NodeService = { readonly on: TestService; readonly node: TestNode; readonly beliefs: Beliefs };

export type TwoServices = { readonly front: NodeService; readonly owner: NodeService };

/** Two services that reach each other: all apps are the second's, and the first knows it. */
export async function twoServices(
  apps: Record<string, TestApp>,
  flags: Record<string, unknown> = {},
): Promise<TwoServices> {
  const authority = await testAuthority();
  const start = async (own: Record<string, TestApp>): Promise<NodeService> => {
    const node = await testNode(authority);
    const beliefs = new Beliefs(node.peer);
    const others = { elsewhere: beliefs, peers: node.peers };
    const on = await testService(own, flags, { others, clock: systemClock });
    const routes: Omit<PeerRoutes, "own"> = on.service.peerRoutes;
    node.listener.route({ ...routes, own: async () => null });
    return { on, node, beliefs };
  };
  const owner = await start(apps);
  const front = await start({});
  front.beliefs.find = async () => ({ kind: "there", peer: owner.node.peer });
  return { front, owner };
}

/** The address of an app of the owner's through the first service. */
export function through({ front, owner }: TwoServices, app: string, target: string): string {
  return owner.on.url(app, target).replace(owner.on.service.apiUrl, front.on.service.apiUrl);
}
