import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { RememberedToken } from "../identity/tokens.ts";
import type { ConnectionGate, Doing, Visitor } from "../kit/listener/connection-gate.ts";
import { noRoom } from "../model/raw-refusal.ts";
import type { Exchange } from "./exchange.ts";

/** What is remembered of a caller's connection from one request to the next. */
export class Connection {
  /** Its place at the listener; null if the connection does not belong to a listener. */
  visitor: Visitor | null = null;
  /** The latest exchange on it. */
  latest: Exchange | null = null;
  /** Requests on it whose answers have not left. */
  pending = 0;
  /** A request on it could not be parsed. What follows may come from anyone, so it is ignored. */
  isOver = false;
  /**
   * The authorization it showed last, and whose it is. Callers repeat it with every call, and comparing it
   * costs a tenth of finding a token of 600 characters in a map.
   */
  shown: { readonly header: string; readonly token: RememberedToken } | null = null;

  /** Its caller has shown a good token: throws `too_many_connections` if that project may hold no further one. */
  know(projectId: string): void {
    const { visitor, latest } = this;
    latest?.onKnown?.();
    if (!visitor || visitor.isKnown || visitor.know(projectId)) return;
    if (latest) latest.isLast = true;
    throw noRoom("owner");
  }

  get doing(): Doing {
    const { latest } = this;
    if (!latest || !latest.request.complete) return "silent";
    return latest.response.writableFinished ? "idle" : "busy";
  }
}

/** The connections that are open. */
export class Connections {
  readonly #known = new WeakMap<Duplex, Connection>();
  readonly #gate: ConnectionGate;

  constructor(gate: ConnectionGate) {
    this.#gate = gate;
  }

  /** One that was just accepted. */
  add(socket: Socket): void {
    const connection = this.of(socket);
    connection.visitor = this.#gate.arrive(socket, () => connection.doing);
  }

  of(socket: Duplex): Connection {
    let connection = this.#known.get(socket);
    if (!connection) {
      connection = new Connection();
      this.#known.set(socket, connection);
    }
    return connection;
  }
}
