import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Catalog } from "../../apps/catalog.ts";
import { ServerResponse } from "../../kit/node-http.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Tunnel } from "../../kit/websocket/tunnel.ts";
import type { AppKey, Others } from "../../nodes/forward/app-locator.ts";
import { answerMoved } from "../../nodes/forward/hop-head.ts";
import { ForwardedRequest, forward } from "../../nodes/forward/forwarded-request.ts";
import type { ForwardParts } from "../../nodes/forward/forwarded-request.ts";
import type { Peer } from "../../nodes/peers.ts";
import { fromPeer } from "./from-peer.ts";

export type PassingParts = Others & { readonly catalog: Pick<Catalog, "has">; readonly clock: Clock };

type Errand = Pick<ForwardParts, "request" | "response" | "upgrade" | "body">;

const SERVICE_RESTART = 1012;
const nothing = (): void => {};

/** Requests about apps that another node has: passed on to it, as they came. */
export class ManagementPassing {
  readonly #parts: PassingParts;
  readonly #tunnels = new Set<Tunnel>();

  constructor(parts: PassingParts) {
    this.#parts = parts;
  }

  /** Has a request answered by the node that has the app; false if that is this one. `body`: if it has been read. */
  async pass(request: FastifyRequest, reply: FastifyReply, app: AppKey, body?: Buffer): Promise<boolean> {
    const peer = await this.#peerOf(app, request.raw);
    if (!peer) return false;
    const errand: Errand = { request: request.raw, response: reply.raw, ...(body && { body }) };
    if (fromPeer(request.raw)) answerMoved(request.raw, reply.raw);
    else if ((await this.#send(errand, app, peer)) !== null) return false;
    reply.hijack();
    return true;
  }

  /**
   * The same for a request that asks for a WebSocket. Null if it has been answered, else what its caller has sent with
   * it.
   */
  async passSocket(
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
      // Whoever answers with it writes to the socket itself.
      release();
      throw error;
    }
  }

  /** Ends the WebSockets that pass through here. */
  close(): void {
    for (const tunnel of this.#tunnels) tunnel.close(SERVICE_RESTART, "the service restarts; connect again");
  }

  async #peerOf({ projectId, appName }: AppKey, request: IncomingMessage): Promise<Peer | null> {
    const { locator, catalog } = this.#parts;
    if (catalog.has(projectId, appName)) return null;
    const place = await locator.settle({ projectId, appName }, fromPeer(request) ? "node" : "caller");
    return place?.kind === "there" ? place.peer : null;
  }

  /** Null if it has been answered; if it is this node's, what came with it. */
  async #send(errand: Errand, app: AppKey, peer: Peer): Promise<Buffer | null> {
    const { locator, peers, clock } = this.#parts;
    const { request, response } = errand;
    const passage = new ForwardedRequest({
      ...errand,
      purpose: "management",
      hostOf: null,
      remote: request.socket.remoteAddress ?? "",
      peers,
      clock,
      isLast: () => false,
      onOpen: nothing,
      onWritten: nothing,
    });
    const leave = (): void => passage.onGone();
    response.once("close", leave);
    try {
      const end = await forward(locator, app, passage, peer);
      return end === "done" ? null : (passage.leave() ?? Buffer.alloc(0));
    } catch (error) {
      if (!response.headersSent) throw error;
      // Only a cut tells that what came so far is not all of it.
      response.destroy();
      return null;
    } finally {
      response.off("close", leave);
    }
  }
}
