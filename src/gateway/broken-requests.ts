import { randomUUID } from "node:crypto";
import type { Duplex } from "node:stream";
import type { Socket } from "node:net";
import type { Refusal } from "../kit/listener/connection-gate.ts";
import { FewAtATime } from "../kit/listener/few-at-a-time.ts";
import { AppError } from "../model/errors.ts";
import type { ErrorCode } from "../model/errors.ts";
import { noRoom, rawRefusal } from "../model/raw-refusal.ts";
import type { Connection } from "./connection.ts";

const PARSER_ERRORS: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: "headers_too_large",
  HPE_CHUNK_EXTENSIONS_OVERFLOW: "body_too_large",
  ERR_HTTP_REQUEST_TIMEOUT: "request_timeout",
};

/** Answers requests that are no whole ones and will never be, then closes their connections. */
export class BrokenRequests {
  readonly #of: (socket: Duplex) => Connection;
  /** Many connections may time out at the same moment. */
  readonly #late = new FewAtATime();

  constructor(of: (socket: Duplex) => Connection) {
    this.#of = of;
  }

  onClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
    const code = PARSER_ERRORS[error.code ?? ""] ?? "bad_request";
    if (!socket.writable || error.code === "ECONNRESET") socket.destroy();
    else if (code === "request_timeout") this.#late.add(() => this.#end(socket, new AppError(code)));
    else this.#end(socket, new AppError(code));
  }

  /** A connection that has brought nothing for long makes room for another. */
  turnAway(socket: Socket, why: Refusal): void {
    this.#end(socket, noRoom(why));
    socket.destroySoon();
  }

  /** Answers leave in the order of the requests, the refusal last. */
  #end(socket: Duplex, refusal: AppError): void {
    const { latest } = this.#of(socket);
    if (latest?.response.writableFinished && !latest.request.complete) {
      // It has been answered already; the rest of it will not arrive.
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

/** Answers what could not even be parsed as a request, then closes. */
function refuse(refusal: AppError, socket: Duplex): void {
  if (socket.writable) socket.end(rawRefusal(refusal, randomUUID()));
}
