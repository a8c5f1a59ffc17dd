import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Catalog } from "../../apps/catalog.ts";
import { type Clock, pause } from "../../kit/clock.ts";
import { ServerResponse } from "../../kit/node-http.ts";
import type { Tunnel } from "../../kit/websocket/tunnel.ts";
import { answerMoved } from "../../nodes/forward/hop-head.ts";
import { forward, ForwardedRequest, type ForwardParts } from "../../nodes/forward/forwarded-request.ts";
import type { AppKey, Others } from "../../nodes/forward/app-locator.ts";
import type { Peer } from "../../nodes/peers.ts";
import { fromPeer } from "./connections.ts";

type ForwardingParts = Others & { readonly catalog: Pick<Catalog, "has">; readonly clock: Clock };

type Hop = Pick<ForwardParts, "request" | "response" | "upgrade" | "body">;

const SERVICE_RESTART = 1012;
const ON_ITS_WAY_MS = 100;
const nothing = (): void => {};

/** Forwards requests about apps that another node owns to that node, unchanged. */
export class ManagementForwarding {
  readonly #parts: ForwardingParts;
  readonly #tunnels = new Set<Tunnel>();

  constructor(parts: ForwardingParts) {
    this.#parts = parts;
  }

  /** Forwards a request to the app's owner; false if this node is the owner. `body`: if it has been read. */
  async forward(request: FastifyRequest, reply: FastifyReply, app: AppKey, body?: Buffer): Promise<boolean> {
    const peer = await this.#peerOf(app, request.raw);
    if (!peer) return false;
    const hop: Hop = { request: request.raw, response: reply.raw, ...(body && { body }) };
    if (fromPeer(request.raw)) answerMoved(request.raw, reply.raw);
    else if ((await this.#send(hop, app, peer)) !== null) return false;
    reply.hijack();
    return true;
  }

  /** Forwards a WebSocket upgrade. Null if it has been answered; else the bytes that came with the request. */
  async forwardSocket(
    request: IncomingMessage,
    socket: Socket,
    first: Buffer,
    app: AppKey,
  ): Promise<Buffer | null> {
    const peer = await this.#peerOf(app, request);
    if (!peer) return first;
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once("finish", () => socket.destroySoon());
    const release = (): Socket => {
      if (response.socket) response.detachSocket(socket);
      return socket;
    };
    if (fromPeer(request)) {
      answerMoved(request, response);
      return null;
    }
    const upgrade = {
      first,
      takeOver: release,
      onTunnel: (tunnel: Tunnel) => void this.#tunnels.add(tunnel),
      onOver: (tunnel: Tunnel) => void this.#tunnels.delete(tunnel),
    };
    try {
      const left = await this.#send({ request, response, upgrade }, app, peer);
      if (left) release();
      return left;
    } catch (error) {
      // The error is answered on the socket itself.
      release();
      throw error;
    }
  }

  /** Closes the WebSockets that are forwarded. */
  close(): void {
    for (const tunnel of this.#tunnels) tunnel.close(SERVICE_RESTART, "the service restarts; connect again");
  }

  /** For an app that has moved but is not elsewhere: it is on its way, or back on this node. */
  async pause(): Promise<void> {
    await pause(this.#parts.clock, ON_ITS_WAY_MS);
  }

  async #peerOf({ projectId, appName }: AppKey, request: IncomingMessage): Promise<Peer | null> {
    const { locator, catalog } = this.#parts;
    if (catalog.has(projectId, appName)) return null;
    const place = await locator.settle({ projectId, appName }, fromPeer(request) ? "node" : "caller");
    return place?.kind === "there" ? place.peer : null;
  }

  /** Null if it has been answered; if this node owns the app, the bytes that came with the request. */
  async #send(hop: Hop, app: AppKey, peer: Peer): Promise<Buffer | null> {
    const { locator, peers, clock } = this.#parts;
    const { request, response } = hop;
    const forwarded = new ForwardedRequest({
      ...hop,
      purpose: "management",
      hostOf: null,
      remote: request.socket.remoteAddress ?? "",
      peers,
      clock,
      isLast: () => false,
      onOpen: nothing,
      onWritten: nothing,
    });
    const leave = (): void => forwarded.onGone();
    response.once("close", leave);
    try {
      const end = await forward(locator, app, forwarded, peer);
      return end === "done" ? null : (forwarded.leave() ?? Buffer.alloc(0));
    } catch (error) {
      if (!response.headersSent) throw error;
      // Only a broken connection shows that the answer is incomplete.
      response.destroy();
      return null;
    } finally {
      response.off("close", leave);
    }
  }
}
