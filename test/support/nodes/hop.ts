import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, request as httpRequest, ServerResponse } from "node:http";
import type { ClientRequest, IncomingMessage, RequestListener } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { onTestFinished } from "vitest";
import { systemClock } from "../../../src/kit/clock.ts";
import { createLog } from "../../../src/kit/log.ts";
import { Seal } from "../../../src/kit/seal.ts";
import { type Authority, openAuthority } from "../../../src/nodes/authority.ts";
import { HeldBytes, type Peer, Peers } from "../../../src/nodes/peers.ts";
import { ForwardedRequest, type ForwardResult } from "../../../src/nodes/forward/forwarded-request.ts";
import { type FromPeer, PeerListener, type PeerRoutes } from "../../../src/nodes/peer-listener.ts";

export type Handler = (request: IncomingMessage, response: ServerResponse, from: FromPeer | null) => void;

/** An authority of an installation that keeps nothing. */
export async function testAuthority(): Promise<Authority> {
  const values = new Map<string, string>();
  const meta = {
    get: async (key: string) => values.get(key) ?? null,
    setIfAbsent: async ({ key, value }: { readonly key: string; readonly value: string }) => {
      if (!values.has(key)) values.set(key, value);
      return values.get(key) ?? "";
    },
  };
  return await openAuthority({ store: { meta }, seal: new Seal(randomBytes(32)), clock: systemClock });
}

/** A node of a test: a listener for peers, and connections to others. */
export type TestNode = { readonly peer: Peer; readonly listener: PeerListener; readonly peers: Peers };

const refuse = (): never => {
  throw new Error("nothing was expected here");
};

/** Starts a node with these routes. */
export async function testNode(
  authority: Authority,
  routes: Partial<PeerRoutes> = {},
  held = new HeldBytes(),
): Promise<TestNode> {
  const identity = authority.issue(randomUUID());
  const log = createLog("silent");
  const listener = await PeerListener.listen({ identity, host: "127.0.0.1", port: 0, log });
  listener.route({
    api: refuse,
    apiUpgrade: refuse,
    management: refuse,
    managementUpgrade: refuse,
    own: async () => refuse(),
    ...routes,
  });
  const peers = new Peers(identity, systemClock, held);
  onTestFinished(async () => {
    peers.close();
    await listener.close();
  });
  return { peer: { id: identity.nodeId, url: `https://127.0.0.1:${listener.port}` }, listener, peers };
}

/** A bare server of HTTP with that handler; gives its address. */
export async function bareServer(
  handler: RequestListener,
  onUpgrade?: (request: IncomingMessage, socket: Socket, first: Buffer) => void,
): Promise<string> {
  const server = createServer({ requireHostHeader: false, noDelay: true, keepAliveTimeout: 0 }, handler);
  server.on("checkContinue", handler);
  server.maxHeadersCount = 0;
  if (onUpgrade) server.on("upgrade", onUpgrade);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** One address that answers by itself, and one that passes everything on to a node which answers in the same way. */
export type Hop = {
  readonly directUrl: string;
  readonly passedUrl: string;
  readonly front: TestNode;
  readonly owner: TestNode;
  /** What became of the requests that were passed on. */
  readonly passed: ForwardResult[];
};

/** Two nodes, and requests that go through the first to the second. */
export async function testHop(
  handler: Handler,
  more: Partial<PeerRoutes> = {},
  held = new HeldBytes(),
): Promise<Hop> {
  const authority = await testAuthority();
  const owner = await testNode(authority, {
    api: (request, response, from) => {
      if (from.isHeld) response.writeContinue();
      handler(request, response, from);
    },
    ...more,
  });
  const front = await testNode(authority, {}, held);
  const passed: ForwardResult[] = [];
  const directUrl = await bareServer((request, response) => handler(request, response, null));
  const pass = (request: IncomingMessage, response: ServerResponse, first: Buffer | null): void => {
    const passage = testPassage(front.peers, request, response, first);
    void (async () => {
      const what = await passage.to(owner.peer).finally(() => passage.release());
      passed.push(what);
      if (what === "done") return;
      if (response.headersSent) response.destroy();
      else response.writeHead(502, { "content-type": "text/plain" }).end(what);
    })();
  };
  const passedUrl = await bareServer(
    (request, response) => pass(request, response, null),
    (request, socket, first) => {
      const response = new ServerResponse(request);
      response.shouldKeepAlive = false;
      response.assignSocket(socket);
      response.once("finish", () => socket.destroySoon());
      pass(request, response, first);
    },
  );
  return { directUrl, passedUrl, front, owner, passed };
}

/** A request on its way to other nodes. */
export function testPassage(
  peers: Peers,
  request: IncomingMessage,
  response: ServerResponse,
  first: Buffer | null = null,
): ForwardedRequest {
  const passage = new ForwardedRequest({
    request,
    response,
    purpose: "api",
    hostOf: null,
    remote: request.socket.remoteAddress ?? "",
    peers,
    clock: systemClock,
    ...(first && {
      upgrade: {
        first,
        takeOver: () => {
          response.detachSocket(request.socket);
          return request.socket;
        },
        onTunnel: () => {},
        onOver: () => {},
      },
    }),
    isLast: () => false,
    onOpen: () => {},
    onWritten: () => {},
  });
  response.once("close", () => passage.onGone());
  return passage;
}

/** A request whose answer may break off. */
export function ask(url: string, method = "GET", headers: Record<string, string> = {}): ClientRequest {
  const request = httpRequest(url, { method, headers, agent: false });
  request.on("error", () => {});
  onTestFinished(() => void request.destroy());
  return request;
}

/** Sends it; the head of its answer. */
export async function answerOf(request: ClientRequest): Promise<IncomingMessage> {
  request.end();
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return response;
}
