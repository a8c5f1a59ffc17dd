import { once } from "node:events";
import { type IncomingMessage, request as httpRequest } from "node:http";
import { buffer } from "node:stream/consumers";
import { setImmediate as settled } from "node:timers/promises";
import { expect, onTestFinished } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import type { ForwardResult } from "../../../src/nodes/forward/forwarded-request.ts";
import { PeerHeartbeat } from "../../../src/nodes/peer-heartbeat.ts";
import { Peers } from "../../../src/nodes/peers.ts";
import { NodeTalk } from "../../../src/nodes/talk.ts";
import { HandClock } from "../../support/clocks.ts";
import { bareServer, testAuthority, testNode, testPassage } from "../../support/nodes/hop.ts";
import { SilentProxy } from "../../support/silent-proxy.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const GREET_MS = 2_000;
/** What a heartbeat may take. */
const PATIENCE_MS = 1_900;

/** Lets a heartbeat that is under way fail, if it has no answer; then it is time for the next. */
async function beat(clock: HandClock): Promise<void> {
  clock.advance(PATIENCE_MS);
  await settled();
  clock.advance(GREET_MS - PATIENCE_MS);
}

/** Waits until no heartbeat is under way: then only the next one is due. */
async function answered(clock: HandClock): Promise<void> {
  await until("the heartbeat is answered", () => clock.pending === 1);
}

/** A node that passes requests on to another, by a way that can fall silent, and sends it heartbeats by a clock that is moved. */
async function heartbeatSite() {
  const authority = await testAuthority();
  const heartbeats: string[] = [];
  let finish = (): void => {};
  const owner = await testNode(authority, {
    api: (_, response) => {
      response.writeHead(200, ["content-type", "text/event-stream"]);
      response.write("half of it");
      finish = () => void response.end(", and the rest");
    },
    own: async (from, path) => {
      heartbeats.push(`${from} ${path}`);
      return null;
    },
  });
  const way = await SilentProxy.openTo(owner.listener.port);
  const clock = new HandClock();
  const peers = new Peers(authority.issue("front"), clock);
  const pulse = new PeerHeartbeat({
    peers,
    talk: new NodeTalk({ peers, clock }),
    clock,
    log: createLog("silent"),
  });
  pulse.start();
  onTestFinished(() => {
    pulse.stop();
    peers.close();
  });
  const passed: ForwardResult[] = [];
  const url = await bareServer((request, response) => {
    void (async () => {
      passed.push(await testPassage(peers, request, response).to({ id: owner.peer.id, url: way.url }));
      if (passed.at(-1) !== "done") response.destroy();
    })();
  });
  return { url, way, clock, heartbeats, passed, peers, peer: owner.peer, finish: () => finish() };
}

async function begun(url: string): Promise<IncomingMessage> {
  const request = httpRequest(url, { agent: false }).on("error", () => {});
  onTestFinished(() => void request.destroy());
  request.end();
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return response;
}

verifies(
  "peers.silent",
  "a node that answers is waited for, and gets heartbeats only meanwhile",
  async () => {
    const { url, clock, heartbeats, passed, finish, peers, peer } = await heartbeatSite();
    clock.advance(10 * GREET_MS);
    expect(heartbeats).toEqual([]);
    const response = await begun(url);
    for (let count = 1; count <= 5; count += 1) {
      await beat(clock);
      await answered(clock);
      expect(heartbeats).toHaveLength(count);
    }
    finish();
    expect((await buffer(response)).toString()).toBe("half of it, and the rest");
    await until("nothing is under way", () => peers.busy().length === 0);
    clock.advance(10 * GREET_MS);
    await settled();
    expect([passed, heartbeats]).toEqual([["done"], Array.from({ length: 5 }, () => "front /nodes/hello")]);
    // What is left is the connection of the request: a heartbeat takes its own along.
    const nobody = { onOpen: () => {}, onData: () => {}, onDrain: () => {}, onLost: () => {} };
    const left = Array.from({ length: 6 }, () => peers.take(peer, nobody)).filter((each) => each !== null);
    expect(left).toHaveLength(1);
  },
);

verifies("peers.silent", "a node that falls silent loses what is under way there", async () => {
  const { url, way, clock, heartbeats, passed } = await heartbeatSite();
  const response = await begun(url);
  await beat(clock);
  await answered(clock);
  expect(heartbeats).toHaveLength(1);
  way.fallSilent();
  for (let missed = 0; missed < 3; missed += 1) {
    expect(passed).toEqual([]);
    await beat(clock);
  }
  // The last heartbeat has its time too.
  await beat(clock);
  await until("it is given up", () => passed.length > 0);
  expect(passed).toEqual(["lost"]);
  await expect(buffer(response)).rejects.toThrow("aborted");
});
