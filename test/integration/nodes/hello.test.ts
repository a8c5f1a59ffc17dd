import { expect } from "vitest";
import { systemClock } from "../../../src/kit/clock.ts";
import { answering, ask, NodeTalk, PeerFailure } from "../../../src/nodes/talk.ts";
import { testAuthority, type TestNode, testNode } from "../../support/nodes/hop.ts";
import { verifies } from "../../verifies.ts";

/** Has a node answer as those of an installation do. */
function talking({ peers, listener }: TestNode): NodeTalk {
  const talk = new NodeTalk({ peers, clock: systemClock });
  const refuse = (): never => {
    throw new Error("nothing was expected here");
  };
  const own = answering({
    owners: { lookAfter: refuse },
    warm: refuse,
    liveStatuses: refuse,
    gpus: refuse,
    holdsRun: refuse,
    onDropped: refuse,
    heartbeat: (node) => talk.heartbeat(node),
  });
  listener.route({ api: refuse, apiUpgrade: refuse, management: refuse, managementUpgrade: refuse, own });
  return talk;
}

verifies("peers.both-ways", "a node that tells a wrong address is not met", async () => {
  const authority = await testAuthority();
  const [one, two, third] = [await testNode(authority), await testNode(authority), await testNode(authority)];
  const talk = talking(one);
  talking(two);
  // Somebody else is there.
  await expect(talk.hello(two.peer, { ...one.peer, url: third.peer.url })).rejects.toThrow(PeerFailure);
  await third.listener.close();
  await expect(talk.hello(two.peer, { ...one.peer, url: third.peer.url })).rejects.toThrow(/cannot reach/);
  const plain = { ...one.peer, url: one.peer.url.replace("https", "http") };
  await expect(talk.hello(two.peer, plain)).rejects.toThrow(PeerFailure);
  await talk.hello(two.peer, one.peer);
});

verifies("peers.own", "a number that no app can have is refused where it arrives", async () => {
  const authority = await testAuthority();
  const [one, two] = [await testNode(authority), await testNode(authority)];
  talking(two);
  for (const appNumber of [0, 1.5, 2 ** 31]) {
    const asked = ask({ peers: one.peers, clock: systemClock }, two.peer, "/nodes/adopt", { appNumber });
    await expect(asked).rejects.toThrow(/it answered 400/);
  }
});
