import { Condition } from "../kit/concurrency.ts";
import type { Clock } from "../kit/clock.ts";
import type { Tunnel } from "../kit/websocket/tunnel.ts";
import { AppError } from "../model/errors.ts";
import type { RunKey } from "../model/run.ts";
import type { Others } from "../nodes/forward/app-locator.ts";
import { ForwardedRequest, forward } from "../nodes/forward/forwarded-request.ts";
import type { Peer } from "../nodes/peers.ts";
import type { Exchange } from "./exchange.ts";
import type { AppRoute } from "./route.ts";

/** `first`: bytes received with a WebSocket handshake; null for any other request. */
type Request = { readonly exchange: Exchange; readonly route: AppRoute; readonly first: Buffer | null };

/** Answers the request on this node. */
type Serve = (first: Buffer | null) => void | Promise<void>;

const SERVICE_RESTART = 1012;
/** Lookups of the node that has a run; the second one nearly always succeeds. */
const TRIES = 5;

/** Forwards requests to the nodes that own their apps. */
export class Forwarding {
  readonly #parts: Others & { readonly clock: Clock };
  readonly #tunnels = new Set<Tunnel>();
  readonly #ended = new Condition();
  #count = 0;

  constructor(parts: Others & { readonly clock: Clock }) {
    this.#parts = parts;
  }

  /** Forwards the request to the app's owner; calls `serve` if that is this node. */
  async handle(request: Request, serve: Serve): Promise<void> {
    const { exchange, route, first } = request;
    const { locator } = this.#parts;
    const place = await locator.settle(route, exchange.from ? "node" : "caller");
    if (place?.kind !== "there") return await serve(first);
    if (exchange.from) return exchange.answerMoved();
    await this.#counted(async () => {
      const forwarded = this.#open(request);
      const end = await forward(locator, route, forwarded, place.peer);
      if (end === "done" || exchange.response.destroyed) return;
      exchange.goneListener = null;
      await serve(forwarded.leave());
    });
  }

  /** Forwards a request about a run to the node that executes it; false if there is none. */
  async handleRun(exchange: Exchange, route: AppRoute, key: RunKey): Promise<boolean> {
    return (await this.#sendRun(exchange, route, await this.#parts.locator.ofRun(key))) === "done";
  }

  /** Forwards a request about a run that waits to the node that serves its app; false if that is this node, or none. */
  async handleWaiting(exchange: Exchange, route: AppRoute): Promise<boolean> {
    if (exchange.from) return false;
    const place = await this.#parts.locator.find(route);
    if (place?.kind !== "there") return false;
    return (await this.#sendRun(exchange, route, place.peer)) === "done";
  }

  /** The same for a run of which nothing was stored; false if it is stored by now, or does not exist. */
  async handleUnstored(exchange: Exchange, route: AppRoute, key: RunKey): Promise<boolean> {
    for (let tries = 0; tries < TRIES; tries++) {
      const result = await this.#sendRun(exchange, route, await this.#parts.locator.holderOf(key));
      // After `moved` the run has ended: asked again, the node has stored it.
      if (result !== "moved") return result === "done";
    }
    throw new AppError("node_lost");
  }

  /** Closes WebSockets so that their clients reconnect, to another node; other requests continue. */
  startDraining(): void {
    for (const tunnel of this.#tunnels) tunnel.close(SERVICE_RESTART, "the service restarts; connect again");
  }

  /** Resolves when no request is being forwarded. */
  async settle(): Promise<void> {
    while (this.#count > 0) await this.#ended.wait();
  }

  /** Ends the remaining WebSockets. */
  close(): void {
    for (const tunnel of this.#tunnels) tunnel.destroy();
  }

  async #sendRun(exchange: Exchange, route: AppRoute, peer: Peer | null): Promise<"done" | "moved" | null> {
    if (!peer) return null;
    if (exchange.response.destroyed) return "done";
    const forwarded = this.#open({ exchange, route, first: null });
    const result = await this.#counted(() => forwarded.to(peer).finally(() => forwarded.release()));
    if (result === "lost") throw new AppError("node_lost");
    return result === "done" ? "done" : "moved";
  }

  async #counted<T>(work: () => Promise<T>): Promise<T> {
    this.#count += 1;
    try {
      return await work();
    } finally {
      this.#count -= 1;
      if (this.#count === 0) this.#ended.notify();
    }
  }

  #open({ exchange, route, first }: Request): ForwardedRequest {
    const { peers, clock } = this.#parts;
    const { request, response, remote } = exchange;
    const forwarded = new ForwardedRequest({
      request,
      response,
      purpose: "api",
      remote,
      hostOf: exchange.isOnAppHost ? route : null,
      peers,
      clock,
      ...(first && {
        upgrade: {
          first,
          takeOver: () => exchange.takeOver(),
          onTunnel: (tunnel) => this.#tunnels.add(tunnel),
          onOver: (tunnel) => this.#tunnels.delete(tunnel),
        },
      }),
      isLast: () => exchange.isLast,
      onOpen: () => exchange.settle(),
      onWritten: () => exchange.noteWritten(),
    });
    exchange.goneListener = forwarded;
    return forwarded;
  }
}
