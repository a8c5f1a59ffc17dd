import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { RememberedToken } from "../identity/tokens.ts";
import { ConnectionGate, type Doing, type Refusal, type Visitor } from "../kit/listener.ts";
import { AppError, type ErrorCode, noRoom, rawRefusal } from "../model/errors.ts";
import type { Exchange } from "./exchange.ts";
import { randomUUID } from "node:crypto";
import { ImmediateQueue } from "../kit/event-loop.ts";

/** The state of a caller's connection between requests. */
export class Connection {
  /** Its place at the connection gate; null if it does not belong to a listener. */
  visitor: Visitor | null = null;
  latest: Exchange | null = null;
  /** Requests without a complete answer. */
  pending = 0;
  /** A request on it could not be parsed, so anything that follows is ignored. */
  isOver = false;
  /** The latest Authorization header. Comparing it costs a tenth of finding a token of 600 characters in a map. */
  shown: { readonly header: string; readonly token: RememberedToken } | null = null;

  /** Its caller is authenticated. Throws `too_many_connections` if the project has as many as it may. */
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

const PARSER_ERRORS: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: "headers_too_large",
  HPE_CHUNK_EXTENSIONS_OVERFLOW: "body_too_large",
  ERR_HTTP_REQUEST_TIMEOUT: "request_timeout",
};

/** All open connections. */
export class Connections {
  readonly #known = new WeakMap<Duplex, Connection>();
  readonly gate: ConnectionGate;
  /** Limits the work when many connections time out at once. */
  readonly #late = new ImmediateQueue();

  constructor(parts: Omit<ConstructorParameters<typeof ConnectionGate>[0], "turnAway">) {
    this.gate = new ConnectionGate({ ...parts, turnAway: (socket, why) => this.#turnAway(socket, why) });
  }

  add(socket: Socket): void {
    const connection = this.of(socket);
    connection.visitor = this.gate.arrive(socket, () => connection.doing);
  }

  of(socket: Duplex): Connection {
    let connection = this.#known.get(socket);
    if (!connection) {
      connection = new Connection();
      this.#known.set(socket, connection);
    }
    return connection;
  }

  /** Answers a request that is malformed or incomplete, then closes its connection. */
  onClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
    const code = PARSER_ERRORS[error.code ?? ""] ?? "bad_request";
    if (!socket.writable || error.code === "ECONNRESET") socket.destroy();
    else if (code === "request_timeout") this.#late.add(() => this.#end(socket, new AppError(code)));
    else this.#end(socket, new AppError(code));
  }

  /** Closes an idle connection to make room for another. */
  #turnAway(socket: Socket, why: Refusal): void {
    this.#end(socket, noRoom(why));
    socket.destroySoon();
  }

  /** Pending answers are sent first, the refusal last. */
  #end(socket: Duplex, refusal: AppError): void {
    const { latest } = this.of(socket);
    if (latest?.isPaced && !latest.response.writableFinished && refusal.code === "request_timeout") return;
    if (latest?.response.writableFinished && !latest.request.complete) {
      // Answered already; its rest will not arrive.
      socket.destroy();
    } else if (!latest || latest.response.writableFinished) {
      refuse(refusal, socket);
    } else if (latest.request.complete) {
      latest.response.once("finish", () => refuse(refusal, socket));
    } else {
      latest.isLast = true;
      latest.breakOff(refusal);
    }
  }
}

/** Writes an answer without a parsed request, then closes. */
function refuse(refusal: AppError, socket: Duplex): void {
  if (socket.writable) socket.end(rawRefusal(refusal, randomUUID()));
}
