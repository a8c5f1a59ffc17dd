import { Condition } from "../kit/concurrency.ts";
import type { Clock } from "../kit/clock.ts";
import type { Tunnel } from "../kit/websocket/tunnel.ts";
import { AppError } from "../model/errors.ts";
import type { RunKey } from "../model/run.ts";
import type { Others } from "../nodes/forward/whereabouts.ts";
import { Passage, passOn } from "../nodes/forward/passage.ts";
import type { Peer } from "../nodes/peers.ts";
import type { Exchange } from "./exchange.ts";
import type { AppRoute } from "./route.ts";

type PassingParts = Others & { readonly clock: Clock };

/** A request that may be another node's. */
type Errand = {
  readonly exchange: Exchange;
  readonly route: AppRoute;
  /** What came together with a handshake; null for a request that asks for no WebSocket. */
  readonly first: Buffer | null;
};

/** Carries it out here; `first` as above. */
type Serve = (first: Buffer | null) => void | Promise<void>;

const SERVICE_RESTART = 1012;
/** So often a node is looked for that has a run; the second time nearly always tells. */
const TRIES = 5;

/** Requests of apps that another node has: passed on to it, as they came. */
export class Passing {
  readonly #parts: PassingParts;
  readonly #tunnels = new Set<Tunnel>();
  readonly #ended = new Condition();
  #count = 0;

  constructor(parts: PassingParts) {
    this.#parts = parts;
  }

  /** Has the request answered by whoever has its app, which may be this node: then `serve` does. */
  async handle(errand: Errand, serve: Serve): Promise<void> {
    const { exchange, route, first } = errand;
    const place = await this.#parts.elsewhere.settle(route, exchange.from ? "node" : "caller");
    if (place?.kind !== "there") return await serve(first);
    if (exchange.from) return exchange.answerMoved();
    return await this.#counted(this.#pass(errand, place.peer, serve));
  }

  /** Has a request about a run answered by the node that the run is under way on; false if there is none. */
  async handleRun(exchange: Exchange, route: AppRoute, key: RunKey): Promise<boolean> {
    return (await this.#passRun(exchange, route, await this.#parts.elsewhere.ofRun(key))) === "done";
  }

  /** The same of a run of which nothing was stored; false if by now it is, or there is no such run. */
  async handleUnstored(exchange: Exchange, route: AppRoute, key: RunKey): Promise<boolean> {
    for (let tries = 0; tries < TRIES; tries++) {
      const passed = await this.#passRun(exchange, route, await this.#parts.elsewhere.holderOf(key));
      // It has ended since the node was asked: asked again, the node has stored it.
      if (passed !== "moved") return passed === "done";
    }
    throw new AppError("node_lost");
  }

  async #passRun(exchange: Exchange, route: AppRoute, peer: Peer | null): Promise<"done" | "moved" | null> {
    if (!peer) return null;
    if (exchange.response.destroyed) return "done";
    const passage = this.#passage({ exchange, route, first: null });
    exchange.goneListener = passage;
    const passed = await this.#counted(passage.to(peer).finally(() => passage.release()));
    if (passed === "lost") throw new AppError("node_lost");
    return passed === "done" ? "done" : "moved";
  }

  /** WebSockets are asked to come again, which leads them to another node; the rest goes on. */
  startDraining(): void {
    for (const tunnel of this.#tunnels) tunnel.close(SERVICE_RESTART, "the service restarts; connect again");
  }

  /** Resolves when nothing is on its way through this node. */
  async settle(): Promise<void> {
    while (this.#count > 0) await this.#ended.wait();
  }

  /** Ends the WebSockets that are left. */
  close(): void {
    for (const tunnel of this.#tunnels) tunnel.destroy();
  }

  async #pass(errand: Errand, to: Peer, serve: Serve): Promise<void> {
    const { elsewhere } = this.#parts;
    const { exchange, route } = errand;
    const passage = this.#passage(errand);
    exchange.goneListener = passage;
    const end = await passOn(elsewhere, route, passage, to);
    if (end === "done" || exchange.response.destroyed) return;
    exchange.goneListener = null;
    await serve(passage.leave());
  }

  async #counted<T>(work: Promise<T>): Promise<T> {
    this.#count += 1;
    try {
      return await work;
    } finally {
      this.#count -= 1;
      if (this.#count === 0) this.#ended.notify();
    }
  }

  #passage({ exchange, route, first }: Errand): Passage {
    const { peers, clock } = this.#parts;
    const { request, response, remote } = exchange;
    return new Passage({
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
      onOpen: () => exchange.noteOpened(),
      onWritten: () => exchange.noteWritten(),
    });
  }
}
